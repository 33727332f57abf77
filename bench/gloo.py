#!/usr/bin/env python3
"""What PyTorch does over Gloo, one process per rank, to be set beside weir's figures: training with DDP, the same
training without an exchange, bare sums, and accuracy over time. Needs PyTorch. Rank 0 prints JSON lines.

    bench/gloo.py train --rank R --ranks 4 --store HOST:PORT --model mlp --hidden 13424 --steps 40 --warmup 10
    bench/gloo.py alone ...
    bench/gloo.py all-reduce --rank R --ranks 4 --store HOST:PORT --bytes 262144,67108864 --rounds 20
    bench/gloo.py accuracy ... --data /usr/share/datasets/fashion-mnist --seed 1 --lr 0.05 --steps 468 --hook fp16"""

import argparse
import gzip
import json
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

WARM_UP_ROUNDS = 2


class LeNet(nn.Module):
    """weir's `lenet`."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 20, 5), nn.Conv2d(20, 50, 5)
        self.fc1, self.fc2 = nn.Linear(50 * 4 * 4, 500), nn.Linear(500, 10)

    def forward(self, x):
        x = torch.max_pool2d(self.conv1(x), 2).relu()
        x = torch.max_pool2d(self.conv2(x), 2).relu()
        return self.fc2(self.fc1(x.flatten(1)).relu())


class Mlp(nn.Module):
    """weir's `mlp`."""

    def __init__(self, hidden: int):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(28 * 28, hidden), nn.Linear(hidden, 10)

    def forward(self, x):
        return self.fc2(self.fc1(x.flatten(1)).relu())


class AlexNet(nn.Module):
    """weir's `alexnet` with `small_images`."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
        self.fc1, self.fc2, self.fc3 = nn.Linear(64 * 7 * 7, 2048), nn.Linear(2048, 2048), nn.Linear(2048, 10)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        x = torch.max_pool2d(self.conv1(x).relu(), 2)
        x = torch.max_pool2d(self.conv2(x).relu(), 2)
        x = self.fc1(self.dropout(x.flatten(1))).relu()
        return self.fc3(self.fc2(self.dropout(x)).relu())


MODELS = {"lenet": lambda options: LeNet(), "mlp": lambda options: Mlp(options.hidden),
          "alexnet": lambda options: AlexNet()}


def print_row(what: str, name: str, case: dict, seconds: list[float], cpu: float) -> None:
    """`cpu`: what all threads of this process have computed meanwhile, in seconds."""
    ordered = sorted(seconds)
    print(json.dumps({"bench": what, "name": name, "case": case,
                      "metrics": {"seconds_p50": statistics.median(seconds),
                                  "seconds_p99": ordered[-1 - len(ordered) // 100],
                                  "seconds_mean": statistics.fmean(seconds),
                                  "cpu_seconds": cpu / len(seconds)}}), flush=True)


def train(options: argparse.Namespace, exchanges: bool) -> tuple[list[float], float]:
    """The seconds of each step after the warm-up: batch, forward, backward, the optimizer's step."""
    torch.manual_seed(options.rank)
    images = torch.randint(0, 256, (4096, 1, 28, 28), dtype=torch.uint8)
    labels = torch.randint(0, 10, (4096,))
    torch.manual_seed(1)
    model = MODELS[options.model](options)
    trained = nn.parallel.DistributedDataParallel(model) if exchanges else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    seconds = []
    for step in range(options.warmup + options.steps):
        if step == options.warmup:
            cpu = time.process_time()
        begin = time.perf_counter()
        picked = torch.randint(0, len(images), (options.batch,))
        batch = (images[picked].float() / 255 - 0.5) / 0.25
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(trained(batch), labels[picked])
        loss.item()
        loss.backward()
        optimizer.step()
        if step >= options.warmup:
            seconds.append(time.perf_counter() - begin)
    return seconds, time.process_time() - cpu


def all_reduce(size: int, rounds: int) -> tuple[list[float], float]:
    values = torch.ones(size // 4)
    seconds = []
    for i in range(WARM_UP_ROUNDS + rounds):
        if i == WARM_UP_ROUNDS:
            cpu = time.process_time()
        begin = time.perf_counter()
        dist.all_reduce(values)
        if i >= WARM_UP_ROUNDS:
            seconds.append(time.perf_counter() - begin)
    return seconds, time.process_time() - cpu


def idx(path: Path, header: int) -> torch.Tensor:
    """The numbers behind the header of a file of the MNIST family."""
    return torch.frombuffer(bytearray(gzip.decompress(path.read_bytes())[header:]), dtype=torch.uint8)


def normal(images: torch.Tensor) -> torch.Tensor:
    return (images.float() / 255 - 0.2860) / 0.3530  # Fashion-MNIST's mean and deviation


def accuracy(options: argparse.Namespace) -> None:
    """Trains with DDP for so many steps, or to an accuracy, and prints accuracies. Time in evaluations, which all
    ranks wait for, does not count."""
    train_images = idx(options.data / "train-images-idx3-ubyte.gz", 16).view(-1, 1, 28, 28)
    train_labels = idx(options.data / "train-labels-idx1-ubyte.gz", 8).long()
    test_images = idx(options.data / "t10k-images-idx3-ubyte.gz", 16).view(-1, 1, 28, 28)
    test_labels = idx(options.data / "t10k-labels-idx1-ubyte.gz", 8).long()
    torch.manual_seed(options.seed)
    model = MODELS[options.model](options)
    trained = nn.parallel.DistributedDataParallel(model)
    if options.hook == "fp16":
        trained.register_comm_hook(None, fp16_compress_hook)
    torch.manual_seed(options.seed * options.ranks + options.rank)  # each rank draws its own dropout
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9)
    order = torch.Generator().manual_seed(options.seed)
    share = torch.empty(0)
    seconds, step, found, goes_on = 0.0, 0, [], torch.ones(1)
    while goes_on.item():
        begin = time.perf_counter()
        for _ in range(options.every):
            if len(share) < options.batch:  # the next epoch, of which each rank has its share
                share = torch.randperm(len(train_images), generator=order)[options.rank::options.ranks]
            picked, share = share[:options.batch], share[options.batch:]
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(trained(normal(train_images[picked])), train_labels[picked])
            loss.backward()
            optimizer.step()
            step += 1
        seconds += time.perf_counter() - begin
        if options.rank == 0:
            model.eval()
            with torch.no_grad():
                right = sum((model(normal(images)).argmax(1) == labels).sum().item()
                            for images, labels in zip(test_images.split(500), test_labels.split(500)))
            model.train()
            found.append(right / len(test_labels))
            print(json.dumps({"seconds": seconds, "step": step, "accuracy": found[-1]}), flush=True)
            goes_on.fill_(step < options.steps and statistics.mean(found[-3:]) < options.until)
        dist.broadcast(goes_on, 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["train", "alone", "all-reduce", "accuracy"])
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--model", choices=list(MODELS), default="lenet")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--bytes", default="67108864")
    parser.add_argument("--rounds", type=int, default=20)
    of_accuracy = parser.add_argument_group("accuracy")
    of_accuracy.add_argument("--data", type=Path, help="a folder with Fashion-MNIST's four files")
    of_accuracy.add_argument("--seed", type=int, default=1)
    of_accuracy.add_argument("--lr", type=float, default=0.05)
    of_accuracy.add_argument("--hook", choices=["none", "fp16"], default="none", help="what DDP compresses with")
    of_accuracy.add_argument("--every", type=int, default=20, help="steps between two evaluations")
    of_accuracy.add_argument("--until", type=float, default=1, help="enough for the mean of three evaluations")
    options = parser.parse_args()

    torch.set_num_threads(1)
    host, port = options.store.rsplit(":", 1)
    store = dist.TCPStore(host, int(port), options.ranks, options.rank == 0)
    dist.init_process_group("gloo", store=store, rank=options.rank, world_size=options.ranks)
    dist.barrier()
    if options.what == "accuracy":
        accuracy(options)
    elif options.what == "all-reduce":
        for size in map(int, options.bytes.split(",")):
            measured = all_reduce(size, options.rounds)
            if options.rank == 0:
                case = {"ranks": options.ranks, "bytes": size, "rounds": options.rounds}
                print_row("all-reduce", "gloo", case, *measured)
    else:
        measured = train(options, options.what == "train")
        if options.rank == 0:
            print_row(options.what, "ddp" if options.what == "train" else "torch alone",
                      {"model": options.model, "ranks": options.ranks, "batch_size": options.batch}, *measured)
    dist.barrier()  # nobody ends the store while others need it


if __name__ == "__main__":
    sys.exit(main())
