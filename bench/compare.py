#!/usr/bin/env python3
"""`make compare`: the same training with every compressor of the catalog at its defaults, as real jobs on a cluster of
this machine, one after the other. Each compressor first chooses its learning rate from a short list, by one training
with each and a seed that is used for nothing else; then it trains with that rate and each of the other seeds. The runs
are kept in docs/comparison.jsonl, and docs/comparison.md is made from them.

    bench/compare.py [--models lenet,resnet] [--only NAME,...] [--seeds 1,2,3] [--again] [--steps N] [--minutes M]

What has been run already is not run again, so that a comparison that was stopped goes on where it was. With nothing
left the document is written anew, and no cluster starts."""

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Iterator

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from choices import several_of  # noqa: E402
from comparison import BASELINE, Run, Runs, Training, best_rate, write_document  # noqa: E402
from local_cluster import WEIR, Broken, Cluster, exit_on_signals, follow  # noqa: E402
from weir_api import ENDED, ApiError, poll  # noqa: E402

DOCUMENT = ROOT / "docs" / "comparison.md"
WORKERS = 2
BATCH = 32
STEPS_PER_EPOCH = 60_000 // WORKERS // BATCH
CHOOSING_SEED = 1000
SECONDS_MAX = 900  # for one job

TRAININGS = {
    "lenet": Training("LeNet", {"name": "lenet"}, STEPS_PER_EPOCH, [0.01, 0.03, 0.1],
                      "431,080 parameters, most of them in one layer. One epoch."),
    "resnet": Training("ResNet-8", {"name": "resnet20", "params": {"depth": 8}}, STEPS_PER_EPOCH // 2,
                       [0.03, 0.1, 0.3, 1],
                       "The model `resnet20` at depth 8: 75,002 parameters, which take long to compute for their "
                       "number. Half an epoch."),
}

# Where the ranks vote on signs every weight moves by the learning rate itself, whatever the gradient's size.
VOTE_RATES = [0.0001, 0.0003, 0.001, 0.003]


def rates_of(training: Training, compressor: dict) -> list[float]:
    return VOTE_RATES if compressor["traits"]["votes"] else training.rates


def spec_of(training: Training, compressor: dict, steps: int, rate: float, seed: int) -> dict:
    return {
        "name": f"compare-{training.model['name']}-{compressor['name']}-{rate:g}-{seed}",
        "model": training.model,
        "dataset": {"name": "fashion-mnist"},
        "training": {
            "epochs": math.ceil(steps / STEPS_PER_EPOCH), "max_steps": steps, "batch_size": BATCH, "seed": seed,
            "optimizer": {"name": "sgd", "lr": rate, "momentum": 0.9},
            "lr_schedule": {"name": "cosine"},
        },
        "compression": {"name": compressor["name"]},
        "resources": {"workers": WORKERS},
        "evaluation": {"every_steps": 0},
        "checkpoint": {"every_steps": 0, "keep": 1},
        "fault_tolerance": {"max_restarts": 0},
    }


def measure(cluster: Cluster, spec: dict) -> dict:
    """Runs a job and gives its figures. Raises ApiError (refused), Broken, TimeoutError (stopped by us), RuntimeError
    (ended badly)."""
    api = cluster.api
    job = api.submit(spec)
    try:
        ended = follow(cluster, job, SECONDS_MAX, sys.stderr)
    except TimeoutError:
        api.call("POST", f"/api/v1/jobs/{job['id']}/stop")
        poll(lambda: api.job(job["id"])["state"] in ENDED, 120, "a job that was told to stop goes on")
        raise
    if ended["state"] != "SUCCEEDED":
        raise RuntimeError(ended["reason"] or ended["state"])
    summary = ended["summary"]
    steps, dense = ended["steps_total"], summary["bytes_dense"]
    ratio = summary.get("compression_ratio_after_warmup") or summary["compression_ratio"]
    warm = round(steps * (1 - summary.get("bytes_dense_after_warmup", dense) / dense))

    def median(name: str) -> float:
        """Of rank 0, without the warm-up and the first steps, in which threads and buffers come up."""
        points = api.series(job["id"], name, worker=0)
        return statistics.median([last for x, _, _, last in points if x > max(warm, min(10, steps // 2))])

    measured = {"accuracy": summary["accuracy"], "steps": steps, "warmup_steps": warm,
                "bytes_sent": summary["bytes_sent"] // WORKERS,
                "bytes_sent_per_step": dense / WORKERS / steps / ratio, "times_smaller": ratio}
    for name in ("step", "compute", "encode", "exchange", "decode", "wait"):
        measured[f"{name}_seconds_p50"] = median(f"{name}_seconds")
    return measured


def reason_of(error: Exception) -> str:
    """What it says of the compressor, without what differs from run to run."""
    text = str(error.problem.get("detail", error)) if isinstance(error, ApiError) else str(error)
    return re.sub(r"^worker \d+ on node \S+ \(process \d+\) failed: ", "", text)


def introduction(seeds: list[int]) -> str:
    rates = "; ".join(f"for {t.title} {', '.join(f'{rate:g}' for rate in t.rates)}" for t in TRAININGS.values())
    votes = ", ".join(f"{rate:g}" for rate in VOTE_RATES)
    reported = ", ".join(map(str, seeds))
    return f"""
Made by `make compare`: every compressor of the catalog with its default parameters and memory, trained on
Fashion-MNIST by {WORKERS} workers on a machine with {os.cpu_count()} cores, one job after the other. Batch {BATCH} per
worker, SGD with momentum 0.9, a cosine schedule.

Each compressor chooses its learning rate from a short list, by the test accuracy of one training with each rate and
seed {CHOOSING_SEED}: {rates}. Where the workers vote on signs each weight moves by the learning rate itself, and the
list is {votes}. The figures are those of seeds {reported} with that rate: the mean accuracy, the lowest and the highest
of them, and the mean difference in points from `{BASELINE}` with the same seed. With so few seeds a difference within
the spread may be chance. Left out, because two cores take too long for them: longer trainings, larger models, more than
two workers, and a finer choice of rates.

The baseline is `{BASELINE}`, a plain cast to 16 bits, because that is what people would use otherwise; `none`, with
32 bits, is there for reference. *Sent per step* is what each worker writes to its gradient sockets; it is compared
with the share of a dense ring all-reduce in 32 bits and with what `{BASELINE}` sent. Both are taken after the warm-up
where there is one. Times are medians of rank 0's steps after the warm-up: of a step (also as a multiple of that of
`{BASELINE}` with the same seed), of its encoding and decoding, which pass beside the backward pass, and of what the
computing thread then still waits for the exchange. The network is the loopback interface, on which sending less gains
nothing: what a slow network makes of the bytes is in benchmarks.md."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def compressors_of_build() -> dict[str, dict]:
    """By name, as the head of a cluster of this machine has them in its catalog."""
    command = [WEIR, "catalog", "compressors", "--json"]
    here = {name: value for name, value in os.environ.items() if name != "WEIR_ADDRESS"}  # that names another head
    shown = subprocess.run(command, env=here, capture_output=True, text=True)
    if shown.returncode != 0:
        raise Broken(f"weir catalog ended with {shown.returncode}: {shown.stderr.strip()}")
    return {compressor["name"]: compressor for compressor in json.loads(shown.stdout)["compressors"]}


class Comparison:
    def __init__(self, catalog: dict[str, dict], options: argparse.Namespace):
        self.options = options
        self.catalog = catalog
        if unknown := [name for name in options.only if name not in self.catalog]:
            raise Broken(f"the catalog has no {', '.join(unknown)}; it has {', '.join(self.catalog)}")
        # The baseline first, so that every row has something to be compared with as soon as it is there.
        self.names = sorted(options.only or self.catalog, key=lambda name: name != BASELINE)
        self.runs = Runs(options.document.with_suffix(".jsonl"))
        if options.again:
            self.runs.forget(lambda it: it.model in options.models and it.compressor in self.names)
        self.start = time.monotonic()
        self.failed = 0

    def out_of_time(self) -> bool:
        return self.options.minutes is not None and time.monotonic() - self.start > 60 * self.options.minutes

    def missing(self) -> Iterator[tuple[str, str, float, int]]:
        """The trainings (model, compressor, rate, seed) that have not been done, in their order. With which rate a
        compressor trains in the end is known once those before have been done."""
        for key in self.options.models:
            for name in self.names:
                for rate in rates_of(TRAININGS[key], self.catalog[name]):
                    if not self.runs.find(key, name, rate, CHOOSING_SEED):
                        yield key, name, rate, CHOOSING_SEED
        # Seed by seed, so that a comparison that is stopped early has something of every compressor.
        for seed in self.options.seeds:
            for key in self.options.models:
                for name in self.names:
                    rates = rates_of(TRAININGS[key], self.catalog[name])
                    tried = [run for rate in rates if (run := self.runs.find(key, name, rate, CHOOSING_SEED))]
                    rate = best_rate(tried)
                    if rate is not None and len(tried) == len(rates) and not self.runs.find(key, name, rate, seed):
                        yield key, name, rate, seed

    def train(self, cluster: Cluster, key: str, name: str, rate: float, seed: int) -> None:
        training, compressor = TRAININGS[key], self.catalog[name]
        minutes = (time.monotonic() - self.start) / 60
        say(f"[{minutes:.0f} min] {training.title} with {name}, rate {rate:g}, seed {seed}")
        spec = spec_of(training, compressor, self.options.steps or training.steps, rate, seed)
        done = {"model": key, "compressor": name, "memory": compressor["default_memory"], "lr": rate, "seed": seed}
        try:
            run = Run(**done, metrics=measure(cluster, spec))
            say(f"  accuracy {run.metrics['accuracy']:.4f}")
        except (ApiError, TimeoutError, RuntimeError) as error:
            cluster.check()
            self.failed += 1
            run = Run(**done, error=reason_of(error))
            say(f"  failed: {run.error}")
        self.runs.add(run)
        self.write()
        if self.options.json:
            case = {"model": training.model, "workers": WORKERS, "batch_size": BATCH, "cores": os.cpu_count(),
                    "memory": run.memory, "lr": rate, "seed": seed}
            result = {"error": run.error} if run.error else {"metrics": run.metrics}
            print(json.dumps({"bench": "compare", "name": name, "case": case, **result}), flush=True)

    def write(self) -> None:
        write_document(self.options.document, introduction(self.options.seeds), TRAININGS, self.runs,
                       list(self.catalog), CHOOSING_SEED, self.options.seeds)

    def go(self) -> None:
        if next(self.missing(), None):
            with Cluster(ROOT / "build" / "compare", nodes=1) as cluster:
                for training in self.missing():
                    if self.out_of_time():
                        break
                    self.train(cluster, *training)
        self.write()
        say(f"{(time.monotonic() - self.start) / 60:.1f} min, {self.failed} failed; see {self.options.document}" +
            ("; stopped because the time was over, the same command goes on from here" if self.out_of_time() else ""))


def names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def numbers(text: str) -> list[int]:
    return [int(number) for number in names(text)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=several_of(TRAININGS), default=list(TRAININGS),
                        help=f"of {','.join(TRAININGS)}")
    parser.add_argument("--only", type=names, default=[], metavar="NAME,...", help="only these compressors")
    parser.add_argument("--seeds", type=numbers, default=[1, 2, 3], metavar="N,...", help="those that are reported")
    parser.add_argument("--again", action="store_true", help="forget earlier runs of what is chosen")
    parser.add_argument("--steps", type=int, help="shorter or longer trainings, for trying out")
    parser.add_argument("--minutes", type=float, help="start no further training after so long")
    parser.add_argument("--json", action="store_true", help="results as JSON lines on the standard output as well")
    parser.add_argument("--document", type=Path, default=DOCUMENT, help="instead of docs/comparison.md")
    options = parser.parse_args()
    exit_on_signals()
    try:
        comparison = Comparison(compressors_of_build(), options)
        comparison.go()
        return 1 if comparison.failed else 0
    except KeyboardInterrupt:
        say("stopped; the same command goes on from here")
        return 130
    except (Broken, TimeoutError, OSError) as error:
        say(f"compare: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
