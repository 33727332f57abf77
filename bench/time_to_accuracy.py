#!/usr/bin/env python3
"""`make time-to-accuracy`: how long training takes to an accuracy, on four hosts with slow links: jobs with what the
catalog offers, and PyTorch's DistributedDataParallel over Gloo on the same hosts. docs/time_to_accuracy.md and its
plot are made from the runs, which are kept in docs/time_to_accuracy.jsonl and are not run again. Needs root, tc and an
interpreter that has PyTorch, unless no run is left: then the document is written anew, and nothing starts.

    bench/time_to_accuracy.py [--models lenet,alexnet,mlp] [--rates 1gbit,100mbit] [--methods 'NAME;...']
                              [--seeds 1,2,3]"""

import argparse
import re
import statistics
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

from accuracy_runs import Runs, accuracy_of, curves, listed, seconds_to, spread
from choices import several_of
from four_hosts import ROOT, WORKERS, FourHosts, complaint
from local_cluster import exit_on_signals
from plots import Lines, write_plots
from weir_api import ENDED, Api

DOCUMENT = ROOT / "docs" / "time_to_accuracy.md"
DATA = Path("/usr/share/datasets/fashion-mnist")
BATCH = 32
RATES = {"1gbit": "1 Gbit/s", "100mbit": "100 Mbit/s"}
WHOLE = "1gbit"  # where trainings run to their end; elsewhere until soon after they have come to the accuracy


@dataclass
class Model:
    title: str
    spec: dict
    rate: float  # of learning
    epochs: int
    target: float  # the accuracy that counts
    every: int  # steps between two evaluations

    def steps(self) -> int:
        return self.epochs * (60000 // WORKERS // BATCH)


MODELS = {
    "lenet": Model("LeNet, 431,080 parameters", {"name": "lenet"}, 0.02, 4, 0.85, 40),
    "alexnet": Model("AlexNet for small images, 10.66 million parameters",
                     {"name": "alexnet", "params": {"small_images": True}}, 0.02, 1, 0.80, 10),
    "mlp": Model("MLP, 10.67 million parameters", {"name": "mlp", "params": {"hidden": 13424}}, 0.01, 1, 0.82, 10),
}
SECONDS_MAX = 2700  # of a training

SYNC = {"mode": "sync"}
ADAMW = {"name": "adamw", "lr": 0.001}
# What a job's spec says: training, compression, exchange.
METHODS = {
    "none": (SYNC, {"name": "none"}, {}),
    "bf16": (SYNC, {"name": "bf16"}, {}),
    "dgc": (SYNC, {"name": "dgc"}, {}),
    "dgc, no warm-up": (SYNC, {"name": "dgc", "params": {"warmup_epochs": 0}}, {}),
    "powersgd": (SYNC, {"name": "powersgd"}, {}),
    "atomo": (SYNC, {"name": "atomo"}, {}),
    "auto": (SYNC, {"name": "dgc"}, {"topology": "auto"}),
    "esync + dgc": ({"mode": "esync"}, {"name": "dgc"}, {}),
    "diloco": ({"mode": "diloco", "params": {"period": 20}, "optimizer": ADAMW}, {"name": "none"}, {}),
    "DDP": (None, "none", {}),
    "DDP, fp16": (None, "fp16", {}),
}


def spec_of(model: str, method: str, seed: int) -> dict:
    training, compression, exchange = METHODS[method]
    of = MODELS[model]
    return {
        "name": f"{model}-{re.sub('[^a-z0-9]+', '-', method)}-{seed}",
        "model": of.spec,
        "dataset": {"name": "fashion-mnist"},
        "training": {"epochs": of.epochs, "batch_size": BATCH, "seed": seed,
                     "optimizer": {"name": "sgd", "lr": of.rate, "momentum": 0.9}} | training,
        "compression": compression,
        "exchange": exchange,
        "resources": {"workers": WORKERS, "placement": "spread"},
        "evaluation": {"every_steps": of.every},
        "checkpoint": {"every_steps": 0, "keep": 1},
        "fault_tolerance": {"max_restarts": 0},
    }


def is_enough(points: list[list[float]], target: float) -> bool:
    """Whether the training has gone on for some time since it came to the accuracy."""
    reached = seconds_to(points, target)
    return reached is not None and points[-1][0] > 1.1 * reached + 5


def train(hosts: FourHosts, spec: dict, target: float | None) -> dict:
    """To the end, or until some time after it has come to `target`."""
    api: Api = hosts.cluster.api
    job = api.submit(spec)["id"]
    begin = time.monotonic()
    while (seen := api.job(job))["state"] not in ENDED:
        enough = target is not None and is_enough(accuracy_of(api, job), target)
        if enough or time.monotonic() - begin > SECONDS_MAX:
            api.call("POST", f"/api/v1/jobs/{job}/stop")
            seen = api.wait_ended(job, 300)
            break
        time.sleep(1)  # seldom: the cores are busy with what is measured
    if seen["state"] not in ("STOPPED", "SUCCEEDED"):
        raise SystemExit(f"{spec['name']}: {seen['state']}: {seen['reason']}")
    return {"accuracy": accuracy_of(api, job), "steps": seen["step"],
            "megabytes_sent_per_step": round(seen["summary"]["bytes_sent"] / 1e6 / max(seen["step"], 1), 4)}


def train_ddp(hosts: FourHosts, python: str, model: str, method: str, seed: int, target: float | None) -> dict:
    of = MODELS[model]
    hidden = of.spec.get("params", {}).get("hidden", 64)
    command = [python, ROOT / "bench" / "gloo.py", "accuracy", "--rank", "{rank}", "--ranks", WORKERS, "--store",
               "{store}", "--model", model, "--hidden", hidden, "--batch", BATCH, "--data", DATA, "--seed", seed,
               "--lr", of.rate, "--hook", METHODS[method][1], "--every", of.every, "--steps", of.steps(),
               "--until", target or 1]
    rows = hosts.run_ranks(command)
    return {"accuracy": [[round(row["seconds"], 2), row["accuracy"]] for row in rows], "steps": rows[-1]["step"]}


def train_all(todo: list[tuple[str, str, str, int]], runs: Runs, python: str) -> None:
    """Each of `todo` (model, rate, method, seed), one after the other."""
    with FourHosts() as hosts:
        hosts.start_cluster(2)
        for n, (model, rate, method, seed) in enumerate(todo):
            hosts.limit(rate)
            target = MODELS[model].target
            until = None if rate == WHOLE else target
            if METHODS[method][0] is None:
                figures = train_ddp(hosts, python, model, method, seed, until)
            else:
                figures = train(hosts, spec_of(model, method, seed), until)
            runs.add({"model": model, "rate": rate, "method": method, "seed": seed, **figures})
            reached = seconds_to(figures["accuracy"], target)
            print(f"{n + 1}/{len(todo)} {model}, {rate}, {method}, seed {seed}: {figures['steps']} steps, "
                  f"{target:.0%} after {reached or '-'} s", file=sys.stderr, flush=True)


def final(points: list[list[float]]) -> float:
    """In %, the mean of the last fifth of the evaluations: at a constant learning rate a single one says little."""
    return 100 * statistics.mean(accuracy for _, accuracy in points[-(len(points) // 5 or 1):])


def table(runs: Runs, model: str, rate: str) -> str:
    target = MODELS[model].target
    whole = rate == WHOLE
    columns = ["", f"seconds to {target:.0%}", "sooner than DDP", "steps an evaluation", "seconds a step",
               "MB sent a step"]
    if whole:
        columns += ["accuracy at the end, %", "against `none`, points"]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    of = lambda method: runs.of(model=model, rate=rate, method=method)
    ddp = [seconds_to(run["accuracy"], target) for run in of("DDP")]
    dense = {run["seed"]: final(run["accuracy"]) for run in of("none")}
    for method in METHODS:
        found = of(method)
        if not found:
            continue
        times = [seconds_to(run["accuracy"], target) for run in found]
        reached = None not in times
        faster = reached and method != "DDP" and ddp and None not in ddp
        sent = [run["megabytes_sent_per_step"] for run in found if "megabytes_sent_per_step" in run]
        cells = [method, spread(times, ".1f") if reached else "not reached",
                 f"{statistics.median(ddp) / statistics.median(times):.1f} times" if faster else "",
                 spread([run["steps"] / len(run["accuracy"]) for run in found], ".0f"),
                 spread([run["accuracy"][-1][0] / run["steps"] for run in found], ".3f"),
                 spread(sent, ".2f") if sent else ""]
        if whole:
            away = [final(run["accuracy"]) - dense[run["seed"]] for run in found if run["seed"] in dense]
            cells += [spread([final(run["accuracy"]) for run in found], ".1f"), spread(away, "+.2f") if away else ""]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


GOAL_TIMES = 10  # sooner than DDP
GOAL_POINTS = 0.5  # below `none` at the end, at most


def goal(runs: Runs, model: str, rate: str) -> str:
    """With which methods a model reaches the goal, and by how much the others miss it. Empty if DDP has not come to the
    accuracy, or if there is nothing beside it."""
    of = lambda method, at=rate: runs.of(model=model, rate=at, method=method)
    time_of = lambda method: statistics.median(
        seconds_to(run["accuracy"], MODELS[model].target) or float("inf") for run in of(method))
    if not of("DDP") or time_of("DDP") == float("inf"):
        return ""
    times = {m: time_of("DDP") / time_of(m) for m in METHODS if m != "DDP" and of(m)}
    ends = {m: statistics.median(final(run["accuracy"]) for run in of(m, WHOLE)) for m in times if of(m, WHOLE)}
    away = {m: end - ends["none"] for m, end in ends.items() if "none" in ends}
    below = [m for m in times if away.get(m, 0) < -GOAL_POINTS]
    met = [m for m in times if times[m] >= GOAL_TIMES and m in away and m not in below]
    others = sorted((times[m], m) for m in times if m not in met)
    if not others:
        return ""
    nearest, least = others[-1], others[0]
    words = [f"{MODELS[model].title.split(',')[0]}:"]
    if met:
        words += ["reached with", listed([f"`{m}` ({times[m]:.1f} times, {away[m]:+.2f} points)" for m in met]) + ",",
                  f"missed with the others, which are {least[0]:.1f} (`{least[1]}`) to {nearest[0]:.1f} times "
                  f"(`{nearest[1]}`) sooner."]
    else:
        words += [f"missed in every way. The soonest is `{nearest[1]}`, {nearest[0]:.1f} times."]
    if below:
        words += ["Too far below `none` end", listed([f"`{m}` ({away[m]:+.2f} points)" for m in below]) + "."]
    step_of = lambda run: run["accuracy"][-1][0] / run["steps"]
    shortest, way, at = min((statistics.median(map(step_of, of(m, r))), m, r)
                            for m in times for r in RATES if of(m, r))
    ddp = statistics.median(map(step_of, of("DDP")))
    if ddp / shortest < GOAL_TIMES:
        words += [f"A step of DDP takes {ddp:.3f} s, and the shortest of all {shortest:.3f} s (`{way}`, {RATES[at]}), "
                  "hardly any of which goes to the line: with as many steps as DDP no training here can be "
                  f"more than {ddp / shortest:.1f} times sooner, however little it sends."]
    return textwrap.fill("- " + " ".join(words), 119, subsequent_indent="  ", break_long_words=False,
                         break_on_hyphens=False)


GOAL = f"""## The goal

At 100 Mbit/s at least {GOAL_TIMES} times sooner than DDP to the same accuracy, and at the end, which is that of the
trainings at {RATES[WHOLE]}, no more than {GOAL_POINTS} points below `none`.
"""

EPOCHS = " or ".join(dict.fromkeys(str(model.epochs) for model in MODELS.values()))  # of any of them
HEAD = f"""# Time to accuracy

`make time-to-accuracy` writes this page; the runs are in [time_to_accuracy.jsonl](time_to_accuracy.jsonl).

Fashion-MNIST, {WORKERS} workers on hosts of their own (network namespaces of one machine with two cores), {BATCH}
examples a worker and step, SGD with momentum 0.9 at the same learning rate for all but `diloco`, whose workers have
AdamW. Each host sends at most as much as the rate says. DDP is PyTorch's DistributedDataParallel over Gloo on the
same hosts, with its fp16 hook where it says so. Its time does not count evaluations; jobs are evaluated beside the
training, on the same cores, and of the evaluations that are due while one is running only the newest is made. An
accuracy counts as reached when the mean of three evaluations in a row is as high, and these are the further apart, the
more *steps an evaluation* a training has.

At {RATES[WHOLE]} each training goes on for {EPOCHS} epochs; the accuracy
at the end is the mean of the last fifth of its evaluations. At the other rate, which changes nothing but the time,
trainings are ended soon after they have come to the accuracy. What is sent is counted at the sockets of all workers.
`dgc`, also under `auto` and with `esync`, has its default warm-up: at such a constant rate the first tenth of a
training is dense ([dgc.md](dgc.md)). Without a warm-up it sends 0.1 % of the entries from the first step on. With the
MLP at 100 Mbit/s `none`, `bf16` and both DDP were measured while other programs ran beside them: the line takes 97 %
of the time of their steps. Of AlexNet's trainings only those in the tables have been run so far.

![accuracy over time](images/time_to_accuracy.svg)
"""


def write_document(runs: Runs) -> None:
    parts, panels = [HEAD], []
    if reached := [words for model in MODELS if (words := goal(runs, model, "100mbit"))]:
        parts.append(GOAL + "\n" + "\n".join(reached) + "\n")
        if len({run["seed"] for run in runs.all}) == 1:
            parts.append("All of this is with one seed.\n")
    for model, of_model in MODELS.items():
        for rate in RATES:
            found = {method: of for method in METHODS if (of := runs.of(model=model, rate=rate, method=method))}
            if not found:
                continue
            heading = f"{of_model.title}, {RATES[rate]}"
            parts.append(f"## {heading}\n\n{table(runs, model, rate)}\n")
            ends = max(run["accuracy"][-1][0] for of in found.values() for run in of)
            moments = [1.05 ** n for n in range(200) if 1.05 ** n <= ends]
            lines, bands = curves(found, moments)
            panels.append(Lines(f"{heading}: accuracy in %", "seconds", lines, bands, x_log=True))
    DOCUMENT.write_text("\n".join(parts))
    write_plots(ROOT / "docs" / "images" / "time_to_accuracy.svg", "Accuracy over time, four hosts", panels)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=several_of(MODELS), default=list(MODELS))
    parser.add_argument("--rates", type=several_of(RATES), default=list(RATES))
    parser.add_argument("--methods", type=several_of(METHODS, ";"), default=list(METHODS),
                        help=f"with ; between them, of {'; '.join(METHODS)}")
    parser.add_argument("--seeds", type=lambda words: [int(n) for n in words.split(",")], default=[1])
    parser.add_argument("--python", default="/usr/bin/python3", help="an interpreter that has PyTorch")
    options = parser.parse_args()
    exit_on_signals()
    runs = Runs(ROOT / "docs" / "time_to_accuracy.jsonl", ("model", "rate", "method", "seed"))
    todo = [(model, rate, method, seed) for seed in options.seeds for model in options.models
            for rate in options.rates for method in options.methods
            if not runs.of(model=model, rate=rate, method=method, seed=seed)]
    with_ddp = any(METHODS[method][0] is None for _, _, method, _ in todo)
    if todo and (missing := complaint([], options.python if with_ddp else None, DATA)):
        sys.exit(f"bench/time_to_accuracy.py: {missing}")
    try:
        if todo:
            train_all(todo, runs, options.python)
    finally:
        if runs.all:
            write_document(runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
