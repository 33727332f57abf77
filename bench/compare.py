#!/usr/bin/env python3
"""`make compare`: the same training with every compressor of the catalog at its defaults, as real jobs on a cluster of
this machine, one after the other; the results are tables in docs/comparison.md.

    bench/compare.py [--models lenet,resnet] [--only NAME,...] [--missing] [--steps N] [--json]

The document is rewritten after each job; rows of compressors that were not run stay as they are. --missing runs only
what has no row yet, or one that says it failed."""

import argparse
import json
import math
import os
import re
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from local_cluster import Broken, Cluster, exit_on_signals, follow  # noqa: E402
from weir_api import ENDED, ApiError, poll  # noqa: E402

DOCUMENT = ROOT / "docs" / "comparison.md"
WORKERS = 2
BATCH = 32
STEPS_PER_EPOCH = 60_000 // WORKERS // BATCH
WARMUP_SHARE = 0.25
SEED = 1
FAILED = "failed: "
SECONDS_MAX = 900  # for one job


@dataclass
class Training:
    title: str
    model: dict
    steps: int
    rate: float  # of those that agree on a mean
    text: str


TRAININGS = {
    "lenet": Training("LeNet", {"name": "lenet"}, STEPS_PER_EPOCH, 0.02,
                      "431,080 parameters, most of them in one layer. One epoch."),
    "resnet": Training("ResNet-8", {"name": "resnet20", "params": {"depth": 8}}, STEPS_PER_EPOCH, 0.05,
                       "The model `resnet20` at depth 8: 75,002 parameters, which take long to compute for their "
                       "number. One epoch: at depth 20 all compressors would take three times as long."),
}

# Where the ranks vote on signs every weight moves by the learning rate itself, whatever the gradient's size; momentum
# of 0.9 behind the vote makes it ten times as much.
VOTE_RATE = 0.0002
VOTE_RATE_WITHOUT_MOMENTUM = 0.001


def learning_rate(training: Training, traits: dict) -> float:
    if not traits["votes"]:
        return training.rate
    return VOTE_RATE_WITHOUT_MOMENTUM if traits["owns_momentum"] else VOTE_RATE


def spec_of(training: Training, compressor: dict, steps: int) -> dict:
    params = {}
    if compressor["traits"]["warmup"] and "warmup_epochs" in compressor["params"]["properties"]:
        params["warmup_epochs"] = round(WARMUP_SHARE * steps / STEPS_PER_EPOCH, 4)
    return {
        "name": f"compare-{training.model['name']}-{compressor['name']}",
        "model": training.model,
        "dataset": {"name": "fashion-mnist"},
        "training": {
            "epochs": math.ceil(steps / STEPS_PER_EPOCH), "max_steps": steps, "batch_size": BATCH, "seed": SEED,
            "optimizer": {"name": "sgd", "lr": learning_rate(training, compressor["traits"]), "momentum": 0.9},
            "lr_schedule": {"name": "cosine"},
        },
        "compression": {"name": compressor["name"], "params": params},
        "resources": {"workers": WORKERS},
        "evaluation": {"every_steps": 0},
        "checkpoint": {"every_steps": 0, "keep": 1},
        "fault_tolerance": {"max_restarts": 0},
    }


def measure(cluster: Cluster, spec: dict) -> dict:
    """Runs a job. Raises ApiError (refused), Broken, TimeoutError (stopped by us), RuntimeError (ended badly)."""
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
    return {"memory": ended["spec"]["compression"]["memory"], "metrics": measured}


def reason_of(error: Exception) -> str:
    """What it says of the compressor, without what differs from run to run."""
    text = str(error.problem.get("detail", error)) if isinstance(error, ApiError) else str(error)
    return re.sub(r"^worker \d+ on node \S+ \(process \d+\) failed: ", "", text)


def significant(value: float, digits: int = 3) -> str:
    """Plain, never with an exponent: 1234, 12.3, 0.0123."""
    text = f"{value:.{digits}g}"
    return f"{float(text):,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{float(text):f}".rstrip("0").rstrip(".")


HEAD = ("| compressor | memory | test accuracy | sent per step | times smaller | step | encode | decode | wait |\n"
        "|---|---|---|---|---|---|---|---|---|")
COLUMNS = HEAD.count("|", 0, HEAD.index("\n")) - 1


def row_of(name: str, memory: str, m: dict) -> str:
    cells = [f"`{name}`", f"`{memory}`", f"{m['accuracy']:.1%}".replace("%", " %"),
             f"{significant(m['bytes_sent_per_step'] / 1e3)} kB", significant(m["times_smaller"])]
    cells += [f"{significant(1e3 * m[f'{part}_seconds_p50'])} ms" for part in ("step", "encode", "decode", "wait")]
    return "| " + " | ".join(cells) + " |"


def failed_row(name: str, memory: str, reason: str) -> str:
    shown = " ".join(reason.split()).replace("|", "/")
    shown = shown if len(shown) <= 200 else shown[:197] + "..."
    return f"| `{name}` | `{memory}` | {FAILED}{shown} |" + " |" * (COLUMNS - 3)


@dataclass
class Document:
    """docs/comparison.md: for each training, the row of each compressor as it stands there."""
    rows: dict[str, dict[str, str]] = field(default_factory=lambda: {title: {} for title in titles()})

    @classmethod
    def read(cls, path: Path) -> "Document":
        document, rows = cls(), None
        for line in path.read_text().splitlines() if path.exists() else []:
            if line.startswith("## "):
                rows = document.rows.get(line[3:])
            elif rows is not None and (found := re.match(r"\| `([^`]+)` \|", line)):
                rows[found[1]] = line
        return document

    def lacks(self, title: str, name: str) -> bool:
        return FAILED in self.rows[title].get(name, FAILED)

    def write(self, path: Path, order: list[str]) -> None:
        text = introduction()
        for training in TRAININGS.values():
            rows = self.rows[training.title]
            text += f"\n## {training.title}\n\n{wrapped(training.text)}\n"
            if rows:
                text += "\n" + "\n".join([HEAD] + [rows[name] for name in order if name in rows]) + "\n"
        path.with_suffix(".new").write_text(text)
        path.with_suffix(".new").replace(path)


def titles() -> list[str]:
    return [training.title for training in TRAININGS.values()]


def wrapped(text: str, width: int = 120) -> str:
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = ""
        line += (" " if line else "") + word
    return "\n".join(lines + [line])


def introduction() -> str:
    rates = ", ".join(f"{t.rate} for {t.title}" for t in TRAININGS.values())
    about = f"""
Made by `make compare`: every compressor of the catalog with its default parameters and memory, trained for real on
Fashion-MNIST by {WORKERS} workers on a machine with {os.cpu_count()} cores, one job after the other. Batch {BATCH} per
worker, SGD with momentum 0.9, a cosine schedule, seed {SEED}. One run each: a difference of a point may be chance. The
trainings are short, so that all of them take about half an hour; nothing is tuned for a compressor.

Learning rates: {rates}. Where the workers vote on signs each weight moves by the learning rate itself: {VOTE_RATE}, or
{VOTE_RATE_WITHOUT_MOMENTUM} where the compressor brings its own momentum, which is an average. Compressors that have a
warm-up get one of a quarter of the training: with the default, of whole epochs, these trainings would hardly leave it.

*Sent per step* is what each worker writes to its gradient sockets, *times smaller* compares it with the share of a
dense ring all-reduce; both after the warm-up where there is one. Times are medians of rank 0's steps after the warm-up:
of a step, of its encoding and decoding (which pass beside the backward pass) and of what the computing thread then
still waits for the exchange."""
    return "# Comparison of compressors\n\n" + "\n\n".join(map(wrapped, about.split("\n\n"))) + "\n"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def compare(cluster: Cluster, options: argparse.Namespace) -> int:
    """How many jobs failed."""
    catalog = {c["name"]: c for c in cluster.api.get("/api/v1/catalog")["compressors"]}
    chosen = options.only or list(catalog)
    if unknown := [name for name in chosen if name not in catalog]:
        raise Broken(f"the catalog has no {', '.join(unknown)}; it has {', '.join(catalog)}")
    document = Document.read(options.document)
    runs = [(key, name) for key in options.models for name in chosen
            if not options.missing or document.lacks(TRAININGS[key].title, name)]
    failed, start = 0, time.monotonic()
    for done, (key, name) in enumerate(runs):
        training, compressor = TRAININGS[key], catalog[name]
        left = f", {(time.monotonic() - start) / done * (len(runs) - done) / 60:.0f} min left" if done else ""
        say(f"[{done + 1}/{len(runs)}{left}] {training.title} with {name}")
        steps = options.steps or training.steps
        spec = spec_of(training, compressor, steps)
        result = {"bench": "compare", "name": name,
                  "case": {"model": training.model, "workers": WORKERS, "batch_size": BATCH, "steps": steps,
                           "lr": spec["training"]["optimizer"]["lr"], "params": spec["compression"]["params"],
                           "memory": compressor["default_memory"], "cores": os.cpu_count()}}
        try:
            measured = measure(cluster, spec)
            result["metrics"] = measured["metrics"]
            row = row_of(name, measured["memory"], measured["metrics"])
        except (ApiError, TimeoutError, RuntimeError) as error:
            cluster.check()
            failed += 1
            result["error"] = reason_of(error)
            row = failed_row(name, compressor["default_memory"], reason_of(error))
        document.rows[training.title][name] = row
        document.write(options.document, list(catalog))
        say(f"  {row}")
        if options.json:
            print(json.dumps(result), flush=True)
    say(f"{len(runs)} jobs in {(time.monotonic() - start) / 60:.1f} min, {failed} failed; see {options.document}")
    return failed


def names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=names, default=list(TRAININGS), help=f"of {','.join(TRAININGS)}")
    parser.add_argument("--only", type=names, default=[], metavar="NAME,...", help="only these compressors")
    parser.add_argument("--missing", action="store_true", help="only what has no row yet, or a failed one")
    parser.add_argument("--steps", type=int, help="shorter or longer trainings, for trying out")
    parser.add_argument("--json", action="store_true", help="results as JSON lines on the standard output as well")
    parser.add_argument("--document", type=Path, default=DOCUMENT, help="instead of docs/comparison.md")
    options = parser.parse_args()
    if unknown := [key for key in options.models if key not in TRAININGS]:
        parser.error(f"no such model: {', '.join(unknown)}")
    exit_on_signals()
    try:
        with Cluster(ROOT / "build" / "compare", nodes=1) as cluster:
            return 1 if compare(cluster, options) else 0
    except KeyboardInterrupt:
        say("stopped; --missing goes on from here")
        return 130
    except (Broken, TimeoutError, OSError) as error:
        say(f"compare: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
