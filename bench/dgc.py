#!/usr/bin/env python3
"""Trains with `none` and with `dgc`, as real jobs on a cluster of this machine, and says how far apart they end.

    bench/dgc.py [--cases NAME,...] [--seeds 1,2,3,4,5] [--runs FILE] [--cifar FOLDER]

The runs are kept in a JSON lines file, each as soon as it has ended, and are not run again. docs/dgc.md has the table
that this prints."""

import argparse
import json
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from choices import several_of  # noqa: E402
from local_cluster import Broken, Cluster, exit_on_signals, follow  # noqa: E402

SECONDS_MAX = 3600  # for one job
WORKERS = 4

FASHION = {"name": "fashion-mnist"}
LENET = {"model": {"name": "lenet"}, "dataset": FASHION, "batch_size": 64, "epochs": 2, "optimizer": {"lr": 0.05}}
COSINE, CONSTANT = {"lr_schedule": "cosine"}, {"lr_schedule": "constant"}

# Trainings by name; docs/dgc.md describes them.
CASES = {
    "lenet-cosine": LENET | COSINE,
    "lenet-constant": LENET | CONSTANT,
    "lenet16-cosine": LENET | COSINE | {"batch_size": 16},
    "lenet16-constant": LENET | CONSTANT | {"batch_size": 16},
    "mlp-cosine": LENET | COSINE | {"model": {"name": "mlp"}},
    "mlp-constant": LENET | CONSTANT | {"model": {"name": "mlp"}},
    "resnet-cosine": LENET | COSINE | {"model": {"name": "resnet20", "params": {"depth": 8}},
                               "optimizer": {"lr": 0.1}},
    "lenet-slow": LENET | COSINE | {"optimizer": {"lr": 0.02}, "batch_size": 32, "epochs": 3},
    "example": LENET | CONSTANT | {"optimizer": {"lr": 0.02}, "batch_size": 16},  # that of `make run`
    "wide": LENET | CONSTANT | {"model": {"name": "mlp", "params": {"hidden": 13424}}, "optimizer": {"lr": 0.01},
                               "batch_size": 32, "epochs": 1},
    "wide-cosine": LENET | COSINE | {"model": {"name": "mlp", "params": {"hidden": 13424}}, "optimizer": {"lr": 0.01},
                               "batch_size": 32, "epochs": 1},
    # As in the DGC authors' configurations for CIFAR-10, but for the model's depth and the number of epochs.
    "cifar": COSINE | {"model": {"name": "resnet20"}, "batch_size": 32, "epochs": 8,
                       "dataset": {"name": "cifar10", "params": {"crop_padding": 4, "flip": True}},
                       "optimizer": {"lr": 0.1, "weight_decay": 1e-4}},
}

METHODS = {
    "none": {"name": "none"},
    "dgc": {"name": "dgc"},
    "paper": {"name": "dgc", "warmup_share": 0.5, "params": {"warmup_schedule": "paper", "warmup_dense": 0}},
    "authors": {"name": "dgc", "warmup_share": 0.5, "params": {"warmup_schedule": "authors", "warmup_dense": 0}},
    "half-dense": {"name": "dgc", "warmup_share": 0.5, "params": {"warmup_dense": 0.5}},
    # Dense for this share of the training, then 0.1 % at once.
    "half": {"name": "dgc", "warmup_share": 0.5},
    "quarter": {"name": "dgc", "warmup_share": 0.25},
    "tenth": {"name": "dgc", "warmup_share": 0.1},
    "fiftieth": {"name": "dgc", "warmup_share": 0.02},
    "no-warm-up": {"name": "dgc", "warmup_share": 0},
}


def compression_of(method: str, epochs: int) -> dict:
    spec = dict(METHODS[method])
    share = spec.pop("warmup_share", None)
    return spec if share is None else spec | {"params": spec.get("params", {}) | {"warmup_epochs": share * epochs}}


def spec_of(name: str, method: str, seed: int, cifar: Path | None) -> dict:
    case = CASES[name]
    of_files = {"path": str(cifar.resolve())} if cifar and case["dataset"]["name"] == "cifar10" else {}
    return {
        "name": f"dgc-{name}-{method}-{seed}",
        "model": case["model"],
        "dataset": case["dataset"] | of_files,
        "training": {"epochs": case["epochs"], "batch_size": case["batch_size"], "seed": seed,
                     "optimizer": {"name": "sgd", "momentum": 0.9} | case["optimizer"],
                     "lr_schedule": {"name": case["lr_schedule"]}},
        "compression": compression_of(method, case["epochs"]),
        "resources": {"workers": WORKERS},
        "checkpoint": {"every_steps": 0, "keep": 1},
    }


class Runs:
    def __init__(self, path: Path):
        self.path = path
        self.all = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def accuracy(self, case: str, method: str, seed: int) -> float | None:
        same = (case, method, seed)
        return next((it["accuracy"] for it in self.all if (it["case"], it["method"], it["seed"]) == same), None)

    def add(self, **run: object) -> None:
        self.all.append(run)
        with self.path.open("a") as file:
            file.write(json.dumps(run) + "\n")


def train(cluster: Cluster, runs: Runs, case: str, method: str, seed: int, cifar: Path | None) -> None:
    job = follow(cluster, cluster.api.submit(spec_of(case, method, seed, cifar)), SECONDS_MAX, sys.stderr)
    if job["state"] != "SUCCEEDED":
        raise Broken(f"{job['name']} ended as {job['state']}: {job['reason']}")
    summary = job["summary"]
    runs.add(case=case, method=method, seed=seed, accuracy=summary["accuracy"], steps=job["steps_total"],
             bytes_sent=summary["bytes_sent"], times_smaller=summary["compression_ratio"])
    print(f"{job['name']}: {summary['accuracy']:.4f}", file=sys.stderr, flush=True)


def table(runs: Runs, seeds: list[int]) -> str:
    """A row for each case and method: the accuracy with each seed, and the mean difference from `none`."""
    lines = ["| training | method | " + " | ".join(f"seed {seed}" for seed in seeds) + " | mean | against none |",
             "|---" * (len(seeds) + 4) + "|"]
    for case in CASES:
        for method in METHODS:
            found = {seed: a for seed in seeds if (a := runs.accuracy(case, method, seed)) is not None}
            if not found:
                continue
            cells = [f"{100 * found[seed]:.2f}" if seed in found else "" for seed in seeds]
            pairs = [a - b for seed, a in found.items() if (b := runs.accuracy(case, "none", seed)) is not None]
            against = f"{100 * statistics.mean(pairs):+.2f}" if pairs and method != "none" else ""
            mean = f"{100 * statistics.mean(found.values()):.2f}"
            lines.append(f"| {case} | `{method}` | " + " | ".join(cells) + f" | {mean} | {against} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=several_of(CASES), default=list(CASES), help=f"of {','.join(CASES)}")
    parser.add_argument("--methods", type=several_of(METHODS), default=["none", "dgc"],
                        help=f"of {','.join(METHODS)}")
    parser.add_argument("--seeds", type=lambda text: [int(n) for n in text.split(",")], default=[1, 2, 3, 4, 5])
    parser.add_argument("--runs", type=Path, default=ROOT / "docs" / "dgc.jsonl")
    parser.add_argument("--cifar", type=Path, help="a folder with the binary version of CIFAR-10, for the case cifar")
    options = parser.parse_args()
    exit_on_signals()
    runs = Runs(options.runs)
    todo = [(case, method, seed) for case in options.cases for seed in options.seeds for method in options.methods
            if runs.accuracy(case, method, seed) is None]
    try:
        if todo:
            with Cluster(ROOT / "build" / "dgc", nodes=2) as cluster:
                for training in todo:
                    train(cluster, runs, *training, options.cifar)
    except KeyboardInterrupt:
        return 130
    except (Broken, TimeoutError, OSError) as error:
        print(f"dgc: {error}", file=sys.stderr)
        return 1
    finally:
        print(table(runs, options.seeds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
