#!/usr/bin/env python3
"""`make esync`: ESync's experiment. Six workers compute at speeds of 1:1:1:1:10:10, as real jobs on a cluster of
this machine, one after the other: each way of training, on examples dealt out at random and by class, with each
seed, until some time after it has come to an accuracy, or until the time is up. Before, each way has chosen its
learning rate, with a seed of its own. docs/esync.md and its plots are made from the metrics that the head has stored.

    bench/esync.py [--methods 'NAME;...'] [--partitions iid,by_class] [--seeds 1,2,3] [--seconds 160] [--again]

The runs are kept in docs/esync.jsonl, each as soon as it has ended, and are not run again: with none left the document
is written anew, and no cluster starts."""

import argparse
import math
import statistics
import sys
import textwrap
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from accuracy_runs import (Runs, accuracy_of, curves, end_of, listed, mean_over_time, over_time,  # noqa: E402
                           seconds_to, spread)
from choices import several_of  # noqa: E402
from local_cluster import Broken, Cluster, exit_on_signals  # noqa: E402
from plots import Bars, Lines, write_plots  # noqa: E402
from weir_api import ENDED, Api, poll  # noqa: E402

DOCUMENT = ROOT / "docs" / "esync.md"
IMAGES = ROOT / "docs" / "images"
WORKERS = 6
BATCH = 32  # of a worker
# The fast workers wait, too: two cores then have time for all six.
SLOWDOWN = [4, 4, 4, 4, 40, 40]
LINK_RATE = ["200mbit"] * 4 + ["20mbit"] * 2
TARGETS = {"iid": 0.75, "by_class": 0.65}
SECONDS_MIN = 25  # of each training, so that there is something to see
PARTITIONS = {"iid": "dealt out at random", "by_class": "by class"}

RATES = [0.01, 0.02, 0.05]  # of learning
SEED_OF_CHOICE = 1000
# Others choose by the time to the accuracy.
RATE_LIKE = {"dc-asgd": "async", "esync, topk": "esync", "esync, topk, adapted": "esync"}

TOPK = {"name": "topk", "params": {"ratio": 0.04}}
# Ways of training: mode, its parameters, compression, and after how many steps of the job to evaluate: a few seconds
# each.
METHODS = {
    "sync": ("sync", {}, {"name": "none"}, 2),
    "async": ("async", {}, {"name": "none"}, 10),
    "dc-asgd": ("async", {"delay_compensation": 0.04}, {"name": "none"}, 10),
    "local_sgd": ("local_sgd", {"period": 8}, {"name": "none"}, 8),
    "esync": ("esync", {}, {"name": "none"}, 7),
    "esync, topk": ("esync", {}, TOPK, 20),
    "esync, topk, adapted": ("esync", {"adapt_compression": True}, TOPK, 20),
}


def chosen_rate(runs: Runs, method: str, partition: str) -> float | None:
    """That with which the accuracy was reached first; if it never was, with which it ended highest. None before it has
    been tried."""
    tried = runs.of(method=RATE_LIKE.get(method, method), partition=partition, seed=SEED_OF_CHOICE)
    reached = lambda run: seconds_to(run["accuracy"], TARGETS[partition]) or math.inf
    best = min(tried, key=lambda run: (reached(run), -end_of(run["accuracy"])), default=None)
    return best["rate"] if best else None


def of_chosen_rate(runs: Runs, method: str, partition: str) -> list[dict]:
    found = [run for run in runs.of(method=method, partition=partition) if run["seed"] != SEED_OF_CHOICE]
    return [run for run in found if run["rate"] == chosen_rate(runs, method, partition)]


def spec_of(method: str, partition: str, seed: int, rate: float) -> dict:
    mode, params, compression, every = METHODS[method]
    return {
        "name": f"esync-{method.replace(', ', '-')}-{partition}-{seed}",
        "model": {"name": "lenet"},
        "dataset": {"name": "fashion-mnist", "partition": partition},
        "training": {"mode": mode, "params": params | {"slowdown": SLOWDOWN, "link_rate": LINK_RATE},
                     "epochs": 1000, "batch_size": BATCH, "seed": seed,
                     "optimizer": {"name": "sgd", "lr": rate, "momentum": 0.9}},
        "compression": compression,
        "resources": {"workers": WORKERS},
        "evaluation": {"every_steps": every},
        "checkpoint": {"every_steps": 0, "keep": 1},
        "fault_tolerance": {"max_restarts": 0},
    }


def last(api: Api, job_id: str, name: str, worker: int) -> float:
    points = api.series(job_id, name, worker)
    return points[-1][3] if points else 0


def compute_share(compute: list[tuple[float, float]], wait: list[tuple[float, float]]) -> float:
    """Of its time, from what a worker's steps took on average until each moment since the one before."""
    shares = [(second, computing / (computing + waiting) if computing + waiting > 0 else 0)
              for (second, computing), (_, waiting) in zip(compute, wait)]
    return mean_over_time(shares)


def measure(cluster: Cluster, spec: dict, target: float, seconds: float) -> dict:
    """Trains until some time after the accuracy has been reached, or for so long, and gives the figures."""
    api = cluster.api
    job = api.submit(spec)
    api.wait_step(job["id"], 1)
    begin = time.monotonic()

    def is_over() -> bool:
        time.sleep(1)  # seldom: the cores are busy with what is measured
        cluster.check()
        passed = time.monotonic() - begin
        reached = seconds_to(accuracy_of(api, job["id"]), target)
        enough = reached is not None and passed > max(SECONDS_MIN, 1.3 * reached + 3)
        return enough or passed > seconds or api.job(job["id"])["state"] in ENDED

    poll(is_over, 2 * seconds + 60, f"{spec['name']} does not go on")
    if api.job(job["id"])["state"] not in ENDED:
        api.call("POST", f"/api/v1/jobs/{job['id']}/stop")
    job = poll(lambda: found if (found := api.job(job["id"]))["state"] in ENDED else None, 120,
               f"{spec['name']} does not stop")
    diverged = "diverged" in (job["reason"] or "")  # then its curve ends there
    if job["state"] not in ("STOPPED", "SUCCEEDED") and not diverged:
        raise Broken(f"{job['name']} ended as {job['state']}: {job['reason']}")
    accuracy = accuracy_of(api, job["id"])
    wall = accuracy[-1][0] if accuracy else seconds
    ranks = range(WORKERS)
    sent = [last(api, job["id"], "bytes_sent", rank) for rank in ranks]
    rates = [mean_over_time(over_time(api, job["id"], "samples_per_second", rank)) for rank in ranks]
    shares = [compute_share(*(over_time(api, job["id"], f"{what}_seconds", rank) for what in ("compute", "wait")))
              for rank in ranks]
    return {"accuracy": accuracy, "steps": job["step"], "megabytes_per_second": round(sum(sent) / wall / 1e6, 3),
            "mean_samples_per_second": round(sum(rates), 1), "compute_shares": [round(share, 4) for share in shares]}


def samples_per_second(run: dict) -> float:
    """Of a run that has no mean over time: counted from the steps that all workers had made."""
    if "mean_samples_per_second" in run:
        return run["mean_samples_per_second"]
    return run["steps"] * WORKERS * BATCH / run["accuracy"][-1][0]


def by_method(runs: Runs, partition: str) -> dict[str, list[dict]]:
    """The runs that the document shows, of each method that has any."""
    return {m: found for m in METHODS if (found := of_chosen_rate(runs, m, partition))}


def table(runs: Runs, partition: str) -> str:
    target = TARGETS[partition]
    lines = [f"| | learning rate | seconds to {target:.0%} | sooner than `sync` | accuracy at the end, % | samples/s "
             "| MB/s sent | compute share, fast and slow workers |", "|---" * 8 + "|"]
    of_methods = by_method(runs, partition)
    times_of = lambda method: [seconds_to(run["accuracy"], target) for run in of_methods.get(method, [])]
    base = times_of("sync")
    for method, found in of_methods.items():
        times = times_of(method)
        reached = [t for t in times if t is not None]
        cell = spread(reached, ".1f") if reached else "never"
        if reached and len(reached) < len(times):
            cell += f", {len(reached)} of {len(times)}"
        sooner = ""
        if method != "sync" and base and None not in base and reached and len(reached) == len(times):
            sooner = f"{statistics.median(base) / statistics.median(reached):.1f} times"
        shares = [statistics.mean(share for run in found for share in run["compute_shares"][begin:end])
                  for begin, end in ((0, 4), (4, WORKERS))]
        lines.append(f"| {method} | {found[0]['rate']} | {cell} | {sooner} "
                     f"| {spread([100 * end_of(run['accuracy']) for run in found], '.1f')} "
                     f"| {spread([samples_per_second(run) for run in found], ',.0f')} "
                     f"| {spread([run['megabytes_per_second'] for run in found], '.2f')} "
                     f"| {shares[0]:.2f}, {shares[1]:.2f} |")
    if any("mean_samples_per_second" not in run for found in of_methods.values() for run in found):
        lines += ["", COUNTED]
    return "\n".join(lines)


def of_edges(runs: Runs, partition: str) -> str:
    """Which of the chosen rates are the first or the last of the list. Empty if none is."""
    rates = {m: chosen_rate(runs, m, partition) for m in by_method(runs, partition) if m not in RATE_LIKE}
    named = [f"the {which} for {listed([f'`{m}`' for m in found])}" for which, edge in
             (("largest", max(RATES)), ("smallest", min(RATES))) if (found := [m for m in rates if rates[m] == edge])]
    if not named:
        return ""
    words = ("Of the learning rates that were tried, the one with which the accuracy was reached first is "
             f"{' and '.join(named)}: beyond it, where none was tried, such a way might come to it sooner.")
    if rates.get("sync") == max(RATES):
        words += " With a better rate for `sync` the others would gain less over it than the table says."
    return textwrap.fill(words, 119, break_on_hyphens=False)


def plot(runs: Runs) -> None:
    panels: list[Lines | Bars] = []
    for partition, words in PARTITIONS.items():
        if of_methods := by_method(runs, partition):
            lines, bands = curves(of_methods, [float(second) for second in range(1, 1000)])
            panels.append(Lines(f"Accuracy in %, examples {words}", "seconds", lines, bands))
    if of_methods := by_method(runs, "iid"):
        for title, figure in (("Throughput, samples per second", samples_per_second),
                              ("Traffic, MB per second", lambda run: run["megabytes_per_second"])):
            values = {m: [figure(run) for run in found] for m, found in of_methods.items()}
            panels.append(Bars(title, {m: [statistics.median(v)] for m, v in values.items()},
                               {m: [(min(v), max(v))] for m, v in values.items()}))
        panels.append(Bars("Share of its time in which each worker computes; the last two are slow",
                           {m: [statistics.median(run["compute_shares"][rank] for run in found)
                                for rank in range(WORKERS)] for m, found in of_methods.items()}))
    write_plots(IMAGES / "esync.svg", "Six workers, two of them ten times slower", panels)


def write_document(runs: Runs) -> None:
    """Unless there is nothing to show yet."""
    parts = lambda partition, words: (f"## Examples {words}", table(runs, partition), of_edges(runs, partition))
    sections = ["\n\n".join(filter(None, parts(partition, words))) + "\n"
                for partition, words in PARTITIONS.items() if by_method(runs, partition)]
    if sections:
        plot(runs)
        DOCUMENT.write_text("\n".join([DOCUMENT_HEAD, *sections]))


DOCUMENT_HEAD = f"""# Workers of different speed: ESync's experiment

`make esync` writes this page from the metrics that the head has stored of each job; the runs are in
[esync.jsonl](esync.jsonl).

LeNet on Fashion-MNIST, {WORKERS} workers on one machine, batch {BATCH}, SGD with momentum 0.9. Each way of training
has that learning rate of {', '.join(map(str, RATES))} with which it came to the accuracy first in a training with
another seed, {SEED_OF_CHOICE}; `dc-asgd` has that of `async`, and `esync` with compression that of `esync`.
Computing takes {', '.join(str(s) for s in SLOWDOWN)} times as long as it would (`training.params.slowdown`): the
speeds are 1:1:1:1:10:10. The links of the fast workers carry 200 Mbit/s, those of the slow ones 20 (`link_rate`).
`sync` averages gradients in every step, `local_sgd` models after 8 steps of each worker, `async` and `dc-asgd` (lambda
0.04) have one parameter server. `topk` sends 4 % of the entries, and with `adapt_compression` workers with slow links
fewer. An accuracy counts as reached when the mean of three evaluations in a row is as high. A training ends 1.3 times
as long after its start as it took to the accuracy, and 3 s, but not before {SECONDS_MIN} s; the accuracy at the end is
the mean of its last three evaluations, at different times for different rows. Medians of the seeds, with the smallest
and the largest.

![accuracy over time, throughput, traffic and compute shares](images/esync.svg)
"""

# For runs from before samples/s were a mean over time: the mean of the rates of single steps, which they have,
# overstates ways that wait seldom.
COUNTED = """Samples/s are counted from the steps that all workers had made: up to 5 % too few where workers do not wait
for each other. They are measured as means over time when the experiment is run again."""


def is_done(runs: Runs, method: str, partition: str, seed: int, rate: float | None) -> bool:
    """`rate`: None for the chosen one."""
    rate = rate or chosen_rate(runs, method, partition)
    return bool(runs.of(method=method, partition=partition, seed=seed, rate=rate))


def train_all(trainings: list[tuple], runs: Runs, options: argparse.Namespace) -> None:
    """Each of `trainings` (method, partition, seed, rate), one after the other, unless that has been done: a rate of
    None is chosen by those before it."""
    with Cluster(ROOT / "build" / "esync", nodes=4) as cluster:
        for n, (method, partition, seed, rate) in enumerate(trainings):
            if is_done(runs, method, partition, seed, rate) and not options.again:
                continue
            rate = rate or chosen_rate(runs, method, partition)
            target = TARGETS[partition]
            figures = measure(cluster, spec_of(method, partition, seed, rate), target, options.seconds)
            runs.add({"method": method, "partition": partition, "seed": seed, "rate": rate, **figures})
            reached = seconds_to(figures["accuracy"], target)
            print(f"{n + 1}/{len(trainings)} {method}, {partition}, seed {seed}, rate {rate}: "
                  f"{figures['steps']} steps, {target:.0%} after {reached or '-'} s, at the end "
                  f"{end_of(figures['accuracy']):.1%}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", type=several_of(METHODS, ";"), default=list(METHODS),
                        help=f"with ; between them, of {'; '.join(METHODS)}")
    parser.add_argument("--partitions", type=several_of(PARTITIONS), default=list(PARTITIONS),
                        help=f"of {','.join(PARTITIONS)}")
    parser.add_argument("--seeds", type=lambda words: [int(n) for n in words.split(",")], default=[1, 2, 3])
    parser.add_argument("--seconds", type=float, default=160, help="of a training, at most")
    parser.add_argument("--again", action="store_true", help="also what has been run before")
    options = parser.parse_args()
    exit_on_signals()
    runs = Runs(ROOT / "docs" / "esync.jsonl", ("method", "partition", "seed", "rate"))
    choices = [(m, p, SEED_OF_CHOICE, rate) for p in options.partitions for m in METHODS if m not in RATE_LIKE
               for rate in RATES]
    wanted = [(m, p, seed, None) for seed in options.seeds for p in options.partitions for m in options.methods]
    trainings = choices + wanted
    try:
        if options.again or not all(is_done(runs, *training) for training in trainings):
            train_all(trainings, runs, options)
    except KeyboardInterrupt:
        return 130
    except (Broken, TimeoutError, OSError) as error:
        print(f"esync: {error}", file=sys.stderr)
        return 1
    finally:
        write_document(runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
