#!/usr/bin/env python3
"""`make time-to-accuracy`: how long training takes to an accuracy, on four hosts with slow links: jobs with what the
catalog offers, and PyTorch's DistributedDataParallel over Gloo on the same hosts. docs/time_to_accuracy.md and its
plot are made from the runs, which are kept in docs/time_to_accuracy.jsonl and are not run again. Needs root, tc and an
interpreter that has PyTorch.

    bench/time_to_accuracy.py [--models lenet,mlp] [--rates 1gbit,100mbit] [--methods NAME,...] [--seeds 1,2,3]"""

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from accuracy_runs import Runs, accuracy_of, curves, end_of, seconds_to, spread
from four_hosts import ROOT, WORKERS, FourHosts
from plots import Lines, write_plots
from weir_api import ENDED, Api

DOCUMENT = ROOT / "docs" / "time_to_accuracy.md"
DATA = Path("/usr/share/datasets/fashion-mnist")
BATCH = 32



@dataclass
class Model:
    title: str
    spec: dict
    rate: float  # of learning
    epochs: float
    target: float  # the accuracy that counts
    seconds: dict[str, float]  # after which a training is ended, by the links' rate


MODELS = {
    "lenet": Model("LeNet, 431,080 parameters", {"name": "lenet"}, 0.02, 4, 0.85, {"1gbit": 180, "100mbit": 500}),
    "mlp": Model("MLP, 10.67 million parameters", {"name": "mlp", "params": {"hidden": 13424}}, 0.01, 1, 0.82,
                 {"1gbit": 400, "100mbit": 2700}),
}

SYNC = {"mode": "sync"}
ADAMW = {"name": "adamw", "lr": 0.001}
# What a job's spec says: training, compression, exchange; and steps of the job between two evaluations.
METHODS = {
    "none": (SYNC, {"name": "none"}, {}, 10),
    "bf16": (SYNC, {"name": "bf16"}, {}, 10),
    "dgc": (SYNC, {"name": "dgc"}, {}, 20),
    "powersgd": (SYNC, {"name": "powersgd"}, {}, 20),
    "atomo": (SYNC, {"name": "atomo"}, {}, 20),
    "auto": (SYNC, {"name": "dgc"}, {"topology": "auto"}, 20),
    "esync + dgc": ({"mode": "esync"}, {"name": "dgc"}, {}, 20),
    "diloco": ({"mode": "diloco", "params": {"period": 20}, "optimizer": ADAMW}, {"name": "none"}, {}, 20),
    "DDP": (None, "none", {}, 10),
    "DDP, fp16": (None, "fp16", {}, 10),
}


def spec_of(model: str, method: str, seed: int) -> dict:
    training, compression, exchange, every = METHODS[method]
    of = MODELS[model]
    return {
        "name": f"{model}-{method.replace(' + ', '-')}-{seed}",
        "model": of.spec,
        "dataset": {"name": "fashion-mnist"},
        "training": {"epochs": of.epochs, "batch_size": BATCH, "seed": seed,
                     "optimizer": {"name": "sgd", "lr": of.rate, "momentum": 0.9}} | training,
        "compression": compression,
        "exchange": exchange,
        "resources": {"workers": WORKERS, "placement": "spread"},
        "evaluation": {"every_steps": every},
        "checkpoint": {"every_steps": 0, "keep": 1},
        "fault_tolerance": {"max_restarts": 0},
    }


def is_enough(points: list[list[float]], seconds: float, target: float) -> bool:
    """Whether there is more to see: half as long again as to the target."""
    reached = seconds_to(points, target)
    return bool(points) and points[-1][0] > min(seconds, 1.5 * reached + 10 if reached else seconds)


def train(hosts: FourHosts, spec: dict, seconds: float, target: float) -> dict:
    api: Api = hosts.cluster.api
    job = api.submit(spec)["id"]
    begin = time.monotonic()
    while (seen := api.job(job))["state"] not in ENDED:
        if is_enough(accuracy_of(api, job), seconds, target) or time.monotonic() - begin > seconds + 60:
            api.call("POST", f"/api/v1/jobs/{job}/stop")
            seen = api.wait_ended(job, 300)
            break
        time.sleep(1)  # seldom: the cores are busy with what is measured
    if seen["state"] not in ("STOPPED", "SUCCEEDED"):
        raise SystemExit(f"{spec['name']}: {seen['state']}: {seen['reason']}")
    return {"accuracy": accuracy_of(api, job), "steps": seen["step"],
            "megabytes_sent_per_step": round(seen["summary"]["bytes_sent"] / 1e6 / max(seen["step"], 1), 4)}


def train_ddp(hosts: FourHosts, python: str, model: str, method: str, seed: int, seconds: float) -> dict:
    of = MODELS[model]
    hidden = of.spec.get("params", {}).get("hidden", 64)
    command = [python, ROOT / "bench" / "gloo.py", "accuracy", "--rank", "{rank}", "--ranks", WORKERS, "--store",
               "{store}", "--model", model, "--hidden", hidden, "--batch", BATCH, "--data", DATA, "--seed", seed,
               "--lr", of.rate, "--hook", METHODS[method][1], "--every", METHODS[method][3], "--seconds", seconds,
               "--until", of.target + 0.01]
    rows = hosts.run_ranks(command)
    return {"accuracy": [[round(row["seconds"], 2), row["accuracy"]] for row in rows], "steps": rows[-1]["step"]}


def table(runs: Runs, model: str, rate: str) -> str:
    target = MODELS[model].target
    lines = [f"| | seconds to {target:.0%} | sooner than DDP | accuracy at the end, % | seconds a step "
             "| MB sent a step |", "|---" * 6 + "|"]
    of = lambda method: runs.of(model=model, rate=rate, method=method)
    ddp = [seconds_to(run["accuracy"], target) for run in of("DDP")]
    for method in METHODS:
        found = of(method)
        if not found:
            continue
        times = [seconds_to(run["accuracy"], target) for run in found]
        all_reached = None not in times
        sooner = f"{ddp[0] / sorted(times)[len(times) // 2]:.1f} times" \
            if method != "DDP" and all_reached and ddp and None not in ddp else ""
        step = [run["accuracy"][-1][0] / run["steps"] for run in found]
        sent = [run["megabytes_sent_per_step"] for run in found if "megabytes_sent_per_step" in run]
        lines.append(f"| {method} | {spread(times, '.1f') if all_reached else 'not reached'} | {sooner} "
                     f"| {spread([100 * end_of(run['accuracy']) for run in found], '.1f')} | {spread(step, '.3f')} "
                     f"| {spread(sent, '.2f') if sent else ''} |")
    return "\n".join(lines)


HEAD = f"""# Time to accuracy

`make time-to-accuracy` writes this page; the runs are in [time_to_accuracy.jsonl](time_to_accuracy.jsonl).

Fashion-MNIST, {WORKERS} workers on hosts of their own (network namespaces of one machine with two cores), {BATCH}
examples a worker and step, SGD with momentum 0.9 at the same learning rate for all but `diloco`, whose workers have
AdamW. Each host sends at most as much as the rate says. DDP is PyTorch's DistributedDataParallel over Gloo on the
same hosts, with its fp16 hook where it says so. Its time does not count evaluations; jobs are evaluated beside the
training, on the same cores. An accuracy counts as reached when the mean of three evaluations in a row is as high; a
training ends some time after, so that the accuracy at its end is no limit of the method.

![accuracy over time](images/time_to_accuracy.svg)
"""


def write_document(runs: Runs) -> None:
    parts, panels = [HEAD], []
    for model, of_model in MODELS.items():
        for rate in ("1gbit", "100mbit"):
            found = {method: of for method in METHODS if (of := runs.of(model=model, rate=rate, method=method))}
            if not found:
                continue
            heading = f"{of_model.title}, {rate.replace('gbit', ' Gbit/s').replace('mbit', ' Mbit/s')}"
            parts.append(f"## {heading}\n\n{table(runs, model, rate)}\n")
            ends = max(run["accuracy"][-1][0] for of in found.values() for run in of)
            moments = [1.05 ** n for n in range(200) if 1.05 ** n <= ends]
            lines, bands = curves(found, moments)
            panels.append(Lines(f"{heading}: accuracy in %", "seconds", lines, bands, x_log=True))
    DOCUMENT.write_text("\n".join(parts))
    write_plots(ROOT / "docs" / "images" / "time_to_accuracy.svg", "Accuracy over time, four hosts", panels)


def main() -> int:
    names = lambda words: words.split(",")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=names, default=list(MODELS))
    parser.add_argument("--rates", type=names, default=["1gbit", "100mbit"])
    parser.add_argument("--methods", type=lambda words: words.split(";"), default=list(METHODS),
                        help=f"with ; between them, of {'; '.join(METHODS)}")
    parser.add_argument("--seeds", type=lambda words: [int(n) for n in names(words)], default=[1])
    parser.add_argument("--python", default="/usr/bin/python3", help="an interpreter that has PyTorch")
    options = parser.parse_args()
    runs = Runs(ROOT / "docs" / "time_to_accuracy.jsonl", ("model", "rate", "method", "seed"))
    todo = [(model, rate, method, seed) for seed in options.seeds for model in options.models
            for rate in options.rates for method in options.methods
            if not runs.of(model=model, rate=rate, method=method, seed=seed)]
    try:
        with FourHosts() as hosts:
            hosts.start_cluster(2)
            for n, (model, rate, method, seed) in enumerate(todo):
                hosts.limit(rate)
                target, seconds = MODELS[model].target, MODELS[model].seconds[rate]
                if METHODS[method][0] is None:
                    figures = train_ddp(hosts, options.python, model, method, seed, seconds)
                else:
                    figures = train(hosts, spec_of(model, method, seed), seconds, target)
                runs.add({"model": model, "rate": rate, "method": method, "seed": seed, **figures})
                reached = seconds_to(figures["accuracy"], target)
                print(f"{n + 1}/{len(todo)} {model}, {rate}, {method}, seed {seed}: {figures['steps']} steps, "
                      f"{target:.0%} after {reached or '-'} s", file=sys.stderr, flush=True)
    finally:
        if runs.all:
            write_document(runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
