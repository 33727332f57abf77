#!/usr/bin/env python3
"""`make run`: a cluster on this machine, the same training without and with compression, and what that changed.

In a terminal the cluster stays up afterwards, for the browser, until Enter; otherwise it is stopped.
"""

import argparse
import json
import sys
from pathlib import Path

from local_cluster import INTERACTIVE, ROOT, Broken, Cluster, exit_on_signals, follow


def train(cluster: Cluster, example: str, epochs: float | None) -> dict:
    """Submits an example and shows its progress until it has ended."""
    spec = json.loads((ROOT / "examples" / example).read_text())
    if epochs is not None:
        spec["training"]["epochs"] = epochs
    job = cluster.api.submit(spec)
    print(f"\n{job['name']}: job {job['id']}", flush=True)
    found = follow(cluster, job, 3600)
    print(f"  {found['state']}" + (f": {found['reason']}" if found["reason"] else ""), flush=True)
    return found


def megabytes(count: float) -> str:
    return f"{count / 1e6:10.2f} MB"


def report(dense: dict, compressed: dict) -> None:
    workers = compressed["spec"]["resources"]["workers"]
    a, b = dense["summary"], compressed["summary"]
    after = b["bytes_sent_after_warmup"] / workers
    ring = b["bytes_dense_after_warmup"] / workers
    print(f"""
                                               none            dgc
  test accuracy                         {a['accuracy']:10.2%}    {b['accuracy']:10.2%}    """
          f"""difference {100 * (b['accuracy'] - a['accuracy']):+.2f} points
  first step after the submit           {a['first_step_seconds']:8.1f} s    {b['first_step_seconds']:8.1f} s
  sent by each worker                {megabytes(a['bytes_sent'] / workers)} {megabytes(b['bytes_sent'] / workers)}
  sent by each worker after warm-up                {megabytes(after)}    {ring / after:.0f} times fewer than the """
          f"""dense ring's{megabytes(ring)}
  (bytes are those written to the gradient sockets)""")


def demonstrate(cluster: Cluster, epochs: float | None) -> int:
    print(f"head and two nodes are up; the dashboard: {cluster.link()}", flush=True)
    dense = train(cluster, "lenet-none.json", epochs)
    compressed = train(cluster, "lenet-dgc.json", epochs)
    succeeded = dense["state"] == compressed["state"] == "SUCCEEDED"
    if succeeded:
        report(dense, compressed)
    print(f"\ndashboard: http://{cluster.api.address}/", flush=True)
    if INTERACTIVE:
        print(f"opened by this link: {cluster.link()}\nEnter stops the cluster.", flush=True)
        try:
            sys.stdin.readline()
        except KeyboardInterrupt:  # stops it as well
            print()
    return 0 if succeeded else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=float, help="shorter or longer trainings than those of the examples")
    parser.add_argument("--data-dir", type=Path, default=ROOT / "build" / "demo", help="the folder of the head's data")
    options = parser.parse_args()
    exit_on_signals()
    try:
        with Cluster(options.data_dir, nodes=2) as cluster:
            return demonstrate(cluster, options.epochs)
    except KeyboardInterrupt:
        print("stopped", flush=True)
        return 130
    except (Broken, TimeoutError, OSError) as error:
        print(f"make run: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
