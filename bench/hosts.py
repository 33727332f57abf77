#!/usr/bin/env python3
"""Training and sums between four hosts with a limited network, beside PyTorch over Gloo: namespaces joined by a bridge,
each with a token-bucket filter on its way out, one process of one thread per host. Needs root, tc, iperf3 and an
interpreter that has PyTorch; --without-gloo does without the last.

    bench/hosts.py [--models lenet,mlp=13424] [--rates none,1gbit,100mbit] [--rounds 3] > rows.jsonl
    bench/hosts.py --what jobs,ddp --steps 5 --warmup 2 --rates 100mbit >> rows.jsonl
    bench/hosts.py --table rows.jsonl

Measures in turns, round by round, what --what names:

    jobs        real jobs of a head and four nodes, with each of --compressors and --topologies
    ddp         DistributedDataParallel with the same model, batch and optimizer
    alone       the same training without an exchange, in four processes at once, by weir and by PyTorch; by weir also
                with a barrier after each step
    all-reduce  sums of --bytes bytes by every topology that fits and by Gloo; without a limit also within one host
    iperf3      one TCP stream from one host to another, and one from each host to the next at the same time

Each measurement is a JSON line on standard output. A table of the medians over the rounds, and of what they are of
their limits, follows on standard error; --table prints that of lines measured before."""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from four_hosts import BIN, ROOT, WORKERS, FourHosts, bits_per_second, complaint
from local_cluster import exit_on_signals

WHAT = ("jobs", "ddp", "alone", "all-reduce", "iperf3")


class Bench(FourHosts):
    """The hosts, and what to measure there."""

    def __init__(self, options: argparse.Namespace):
        super().__init__(options.congestion)
        self.options = options


def job_spec(model: str, compressor: str, topology: str, options: argparse.Namespace) -> dict:
    name, _, hidden = model.partition("=")
    # Without warm-up: the figure is that of the compressor's final ratio.
    params = {"dgc": {"ratio": 0.001, "warmup_epochs": 0}}.get(compressor, {})
    return {
        "name": f"hosts-{compressor}",
        "model": {"name": name, "params": {"hidden": int(hidden)} if hidden else {}},
        "dataset": {"name": "synthetic", "params": {"train_examples": 16384, "test_examples": 64}},
        "training": {"epochs": 1000, "max_steps": options.warmup + options.steps, "batch_size": options.batch,
                     "seed": 1,
                     "optimizer": {"name": "sgd", "lr": 0.01, "momentum": 0.9}},
        "compression": {"name": compressor, "params": params},
        "exchange": {"topology": topology},
        "resources": {"workers": WORKERS, "placement": "spread"},
        "evaluation": {"every_steps": 1000000},
        "checkpoint": {"every_steps": 1000000},
    }


def measure_job(bench: Bench, model: str, compressor: str, topology: str) -> dict:
    api, options = bench.cluster.api, bench.options
    job = api.submit(job_spec(model, compressor, topology, options))
    while (seen := api.job(job["id"]))["state"] not in ("SUCCEEDED", "FAILED", "STOPPED"):
        time.sleep(0.5)  # seldom: the cores are busy with what is measured
    if seen["state"] != "SUCCEEDED":
        raise SystemExit(f"the job {compressor} over {topology}: {seen['state']}: {seen['reason']}")
    steps = [last for x, _, _, last in api.series(job["id"], "step_seconds", worker=0) if x > options.warmup]
    compute = [last for x, _, _, last in api.series(job["id"], "compute_seconds", worker=0) if x > options.warmup]
    return {"bench": "jobs", "name": compressor,
            "case": {"model": model, "topology": topology, "batch_size": options.batch, "steps": len(steps)},
            "metrics": {"seconds_p50": statistics.median(steps), "seconds_mean": statistics.fmean(steps),
                        "seconds_p99": sorted(steps)[-1 - len(steps) // 100],
                        "compute_seconds_p50": statistics.median(compute),
                        "bytes_sent": seen["summary"]["bytes_sent"], "bytes_dense": seen["summary"]["bytes_dense"]}}


def gloo(bench: Bench, what: str, *arguments) -> list:
    return [bench.options.python, ROOT / "bench" / "gloo.py", what, "--rank", "{rank}", "--ranks", WORKERS, "--store",
            "{store}", *arguments]


def training(bench: Bench, what: str, model: str) -> list:
    options = bench.options
    name, _, hidden = model.partition("=")
    return gloo(bench, what, "--model", name, "--hidden", hidden or 64, "--batch", options.batch,
                "--steps", options.steps, "--warmup", options.warmup)


def measure_alone(bench: Bench, model: str) -> Iterator[dict]:
    name, _, hidden = model.partition("=")
    params = json.dumps({"hidden": int(hidden)} if hidden else {}).replace("{", "{{").replace("}", "}}")
    rows = bench.run_ranks([BIN / "weir-worker", "bench", "train", "--json", "--filter", "in step", "--model", name,
                            "--model-params", params, "--steps", bench.options.steps, "--warmup",
                            bench.options.warmup, "--batch-size", bench.options.batch, "--rank", "{rank}", "--peers",
                            "{peers}"])
    for shown, row in zip(("weir alone", "weir in step"), rows, strict=True):
        yield {"bench": "alone", "name": shown, "case": {"model": model, "batch_size": bench.options.batch},
               "metrics": {"seconds_p50": row["metrics"]["step_seconds_p50"],
                           "seconds_p99": row["metrics"]["step_seconds_p99"]}}
    if not bench.options.without_gloo:
        for row in bench.run_ranks(training(bench, "alone", model)):
            row["case"]["model"] = model
            yield row


def measure_ddp(bench: Bench, model: str) -> Iterator[dict]:
    for row in bench.run_ranks(training(bench, "train", model)):
        row["case"]["model"] = model
        yield {**row, "bench": "ddp"}


def measure_all_reduce(bench: Bench, rate: str, together: bool) -> Iterator[dict]:
    """About two seconds for each size and topology."""
    options = bench.options
    for size in options.bytes.split(","):
        seconds = 2 * int(size) * 8 * 0.75 / (bits_per_second(rate) or 3e9)
        rounds = max(3, min(200, int(2 / seconds)))
        commands = [[BIN / "weir-worker", "bench", "all-reduce", "--json", "--rank", "{rank}", "--peers", "{peers}",
                     "--bytes", size, "--rounds", rounds, "--filter", options.reduce_with]]
        if not options.without_gloo:
            commands.append(gloo(bench, "all-reduce", "--bytes", size, "--rounds", rounds))
        for command in commands:
            for row in bench.run_ranks(command, together):
                row["case"]["place"] = "one host" if together else "hosts"
                yield row


def stream(bench: Bench, sender: int, receiver: int) -> float:
    """One TCP stream from one host to another: bits per second."""
    port = str(5201)
    server = subprocess.Popen([*bench.hosts.inside(receiver), "iperf3", "-s", "-1", "-p", port],
                              stdout=subprocess.DEVNULL)
    try:
        while True:
            command = [*bench.hosts.inside(sender), "iperf3", "-c", bench.hosts.address(receiver), "-p", port, "-t",
                       "3", "-J"]
            done = subprocess.run(command, capture_output=True, text=True)
            answer = json.loads(done.stdout)
            if "unable to connect" not in answer.get("error", ""):
                break
        if "error" in answer:
            raise SystemExit(f"iperf3: {answer['error']}")
    finally:
        server.kill()
        server.wait()
    return answer["end"]["sum_received"]["bits_per_second"]


def measure_iperf3(bench: Bench) -> Iterator[dict]:
    yield {"bench": "iperf3", "name": "iperf3", "case": {"streams": 1},
           "metrics": {"bits_per_second": stream(bench, 1, 2)}}
    hosts = range(1, WORKERS + 1)
    with ThreadPoolExecutor(WORKERS) as together:
        rates = list(together.map(lambda host: stream(bench, host, host % WORKERS + 1), hosts))
    yield {"bench": "iperf3", "name": "iperf3", "case": {"streams": WORKERS},
           "metrics": {"bits_per_second": sum(rates)}}


def measure(bench: Bench, rate: str) -> Iterator[dict]:
    """One round of everything that is wanted."""
    options = bench.options
    wanted = options.what.split(",")
    for model in options.models.split(",") if {"jobs", "ddp", "alone"} & set(wanted) else []:
        if "jobs" in wanted:
            for compressor in options.compressors.split(","):
                for topology in options.topologies.split(","):
                    yield measure_job(bench, model, compressor, topology)
        if "ddp" in wanted and not options.without_gloo:
            yield from measure_ddp(bench, model)
        if "alone" in wanted:
            yield from measure_alone(bench, model)
    if "all-reduce" in wanted:
        yield from measure_all_reduce(bench, rate, together=False)
        if rate == "none":
            yield from measure_all_reduce(bench, rate, together=True)
    if "iperf3" in wanted:
        yield from measure_iperf3(bench)


class Table:
    """Medians over the rounds, and what they are of what limits them."""

    def __init__(self, rows: list[dict]):
        self.values = defaultdict(list)
        for row in rows:
            case = row["case"]
            key = (row["rate"], row["bench"], case.get("model") or case.get("place", ""),
                   case.get("bytes") or case.get("streams", 0),
                   row["name"], case.get("topology", ""))
            metrics = row["metrics"]
            self.values[key].append(metrics.get("seconds_p50") or metrics["bits_per_second"])
        self.rates = list(dict.fromkeys(row["rate"] for row in rows))

    def median(self, *key) -> float | None:
        found = self.values.get(key)
        return statistics.median(found) if found else None

    def text(self) -> str:
        lines = []
        for rate in self.rates:
            lines += self.trainings(rate) + self.sums(rate)
        return "\n".join(lines)

    def trainings(self, rate: str) -> list[str]:
        lines = []
        trainings = [key for key in self.values if key[0] == rate and key[1] in ("jobs", "ddp", "alone")]
        for model in dict.fromkeys(key[2] for key in trainings):
            alone = self.median(rate, "alone", model, 0, "weir alone", "")
            torch = self.median(rate, "alone", model, 0, "torch alone", "")
            ddp = self.median(rate, "ddp", model, 0, "ddp", "")
            in_step = self.median(rate, "alone", model, 0, "weir in step", "")
            rows = [("compute alone, weir", alone), ("compute in step, weir", in_step),
                    ("compute alone, PyTorch", torch), ("PyTorch DDP", ddp)]
            rows += [(f"{key[4]}, {key[5]}", statistics.median(found)) for key, found in self.values.items()
                     if key[:3] == (rate, "jobs", model)]
            lines += ["", f"{model}, limit {rate}", f"  {'':32}{'step':>12}{'/ alone':>9}{'/ DDP':>9}"]
            lines += [f"  {name:32}{1e3 * step:9.1f} ms" + "".join(f"{step / base:9.3f}" if base else f"{'':9}"
                      for base in (alone, ddp)) for name, step in rows if step]
        return lines

    def sums(self, rate: str) -> list[str]:
        lines = []
        line = bits_per_second(rate)
        for streams in (1, WORKERS):
            if found := self.median(rate, "iperf3", "", streams, "iperf3", ""):
                lines += ["", f"TCP streams: {streams}, limit {rate}: {found / 1e9:.3f} Gbit/s"
                          + (f", {found / line / streams:.3f} of the lines" if line else "")]
        sums = [key for key in self.values if key[:2] == (rate, "all-reduce")]
        for place, size in dict.fromkeys(key[2:4] for key in sums):
            lines += ["", f"sum of {size} bytes, {place}, limit {rate}",
                      f"  {'':32}{'time':>13}{'Gbit/s':>9}{'/ line':>9}{'x Gloo':>9}"]
            gloo = self.median(rate, "all-reduce", place, size, "gloo", "")
            for key, found in self.values.items():
                if key[:4] != (rate, "all-reduce", place, size):
                    continue
                seconds = statistics.median(found)
                speed = 2 * (WORKERS - 1) / WORKERS * size * 8 / seconds
                lines.append(f"  {key[4]:32}{1e3 * seconds:10.3f} ms{speed / 1e9:9.3f}"
                             + (f"{speed / line:9.3f}" if line else f"{'':9}")
                             + (f"{gloo / seconds:9.2f}" if gloo else ""))
        return lines


def complaint_about(options: argparse.Namespace) -> str | None:
    """What is wrong with them, or missing."""
    wanted = set(options.what.split(","))
    if wanted - set(WHAT):
        return f"--what knows {', '.join(WHAT)}; not {', '.join(sorted(wanted - set(WHAT)))}"
    with_gloo = wanted & {"ddp", "alone", "all-reduce"} and not options.without_gloo
    return complaint(["iperf3"] if "iperf3" in wanted else [], options.python if with_gloo else None)


def rates_of(words: str) -> list[str]:
    """The `type` of --rates."""
    rates = words.split(",")
    try:
        for rate in rates:
            bits_per_second(rate)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", default=",".join(WHAT))
    parser.add_argument("--models", default="lenet,mlp=13424", help="lenet, or mlp=WIDTH of its hidden layer")
    parser.add_argument("--compressors", default="none,dgc")
    parser.add_argument("--topologies", default="ring", help="of the jobs")
    parser.add_argument("--reduce-with", default="", help="a regular expression over the topologies of all-reduce")
    parser.add_argument("--rates", type=rates_of, default="none,1gbit,100mbit")
    parser.add_argument("--bytes", default="262144,67108864", help="sizes of the sums")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--warmup", type=int, default=10, help="steps that do not count")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--congestion", default="cubic", help="TCP's congestion control on all hosts")
    parser.add_argument("--python", default="/usr/bin/python3", help="an interpreter that has PyTorch")
    parser.add_argument("--without-gloo", action="store_true", help="without what needs PyTorch")
    parser.add_argument("--table", nargs="+", metavar="FILE", help="print the table of these lines; measure nothing")
    options = parser.parse_args()
    if options.table:
        lines = [line for name in options.table for line in Path(name).read_text().splitlines()]
        print(Table([json.loads(line) for line in lines]).text())
        return
    if missing := complaint_about(options):
        sys.exit(f"bench/hosts.py: {missing}")

    exit_on_signals()
    rows = []
    with Bench(options) as bench:
        if "jobs" in options.what.split(","):
            bench.start_cluster()
        for rate in options.rates:
            bench.limit(rate)
            for number in range(options.rounds):
                for row in measure(bench, rate):
                    rows.append({**row, "rate": rate, "round": number})
                    print(json.dumps(rows[-1]), flush=True)
    print(Table(rows).text(), file=sys.stderr)


if __name__ == "__main__":
    main()
