#!/usr/bin/env python3
"""Steps per second of real jobs on four hosts with a limited network: namespaces joined by a bridge, each with a
token-bucket filter on its way out, one worker per host and the head on a fifth. Needs root.

    bench/hosts.py [--steps 150] [--rates none,100mbit] [--compressors none,dgc]

Prints JSON lines; `compute_seconds_p50` is the limit: what a step takes without any exchange, measured inside the very
same steps."""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "system"), str(ROOT / "scripts")]

from cluster import Cluster  # noqa: E402
from hosts import ApiInside, Hosts  # noqa: E402

WORKERS = 4


def limit(hosts: Hosts, rate: str) -> None:
    """Lets each worker host send at most `rate`; "none" lifts the limit."""
    for i in range(1, WORKERS + 1):
        subprocess.run([*hosts.inside(i), "tc", "qdisc", "del", "dev", "eth0", "root"], capture_output=True)
        if rate != "none":
            subprocess.run([*hosts.inside(i), "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate,
                            "burst", "128kb", "latency", "200ms"], check=True)


def spec(compressor: str, steps: int, batch: int) -> dict:
    # Without warm-up: the figure is that of the compressor's final ratio.
    params = {"dgc": {"ratio": 0.001, "warmup_epochs": 0}}.get(compressor, {})
    return {
        "name": f"hosts-{compressor}",
        "model": {"name": "lenet"},
        "dataset": {"name": "fashion-mnist"},
        "training": {"epochs": 100, "max_steps": steps, "batch_size": batch, "seed": 1},
        "compression": {"name": compressor, "params": params},
        "resources": {"workers": WORKERS, "placement": "spread"},
        "evaluation": {"every_steps": 1000000},
        "checkpoint": {"every_steps": 1000000},
    }


def measure(api, compressor: str, rate: str, steps: int, batch: int) -> dict:
    job = api.submit(spec(compressor, steps, batch))
    ended = api.wait_ended(job["id"], seconds=1800)
    if ended["state"] != "SUCCEEDED":
        raise SystemExit(f"{compressor} at {rate}: {ended['state']}: {ended['reason']}")

    def points(name: str) -> list[float]:
        """Of rank 0, without the first steps, in which the threads and buffers come up."""
        return [last for x, _, _, last in api.series(job["id"], name, worker=0) if x > 10]

    step, compute = points("step_seconds"), points("compute_seconds")
    summary = ended["summary"]
    return {
        "bench": "hosts", "name": compressor,
        "case": {"model": "lenet", "hosts": WORKERS, "batch_size": batch, "rate": rate, "steps": steps,
                 "cores": os.cpu_count()},
        "metrics": {
            "step_seconds_p50": statistics.median(step),
            "step_seconds_p99": sorted(step)[int(len(step) * 0.99)],
            "compute_seconds_p50": statistics.median(compute),
            "step_over_compute": statistics.median(step) / statistics.median(compute),
            "bytes_sent": summary["bytes_sent"], "bytes_dense": summary["bytes_dense"],
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rates", default="none,100mbit")
    parser.add_argument("--compressors", default="none,dgc")
    options = parser.parse_args()

    hosts, cluster = Hosts(WORKERS + 1), Cluster()
    try:
        hosts.make()
        head = hosts.address(0)
        cluster.start_head("--insecure", listen=f"{head}:6380", http="127.0.0.1:8265", prefix=hosts.inside(0))
        cluster.api = ApiInside(cluster.api.address, cluster.api.token, hosts.inside(0))
        names = [f"host{i}" for i in range(1, WORKERS + 1)]
        for i, name in enumerate(names, start=1):
            cluster.start_node(name, 1, head=f"{head}:6380", prefix=hosts.inside(i))
        cluster.await_nodes(*names)
        for rate in options.rates.split(","):
            limit(hosts, rate)
            for compressor in options.compressors.split(","):
                print(json.dumps(measure(cluster.api, compressor, rate, options.steps, options.batch)), flush=True)
    finally:
        for problem in cluster.close():
            print(problem, file=sys.stderr)
        hosts.remove()


if __name__ == "__main__":
    main()
