#!/usr/bin/env python3
"""`make run`: a cluster on this machine, the same training without and with compression, and what that changed.

In a terminal the cluster stays up afterwards, for the browser, until Ctrl-C; otherwise it is stopped.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from weir_api import ENDED, Api, poll

ROOT = Path(__file__).resolve().parent.parent
WEIR = ROOT / "build" / "release" / "bin" / "weir"
DATA_DIR = ROOT / "build" / "demo"
INTERACTIVE = sys.stdin.isatty() and sys.stdout.isatty() and not os.environ.get("CI")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


class Cluster:
    """`weir up` in the background: a head, two nodes of two slots each."""

    def __init__(self) -> None:
        DATA_DIR.mkdir(parents=True, exist_ok=True)
        self.log = DATA_DIR / "up.log"
        endpoints = DATA_DIR / "endpoints.json"
        endpoints.unlink(missing_ok=True)
        command = [WEIR, "up", "--nodes", "2", "--cpus-per-node", "2", "--data-dir", DATA_DIR]
        command += ["--http", f"127.0.0.1:{8265 if is_free(8265) else 0}"]
        command += ["--listen", f"127.0.0.1:{6380 if is_free(6380) else 0}"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=True)  # Ctrl-C is for us; we stop it in order

        def published() -> dict | None:
            if self.process.poll() is not None:
                raise SystemExit(f"weir up ended with {self.process.returncode}:\n{self.log.read_text()}")
            try:
                return json.loads(endpoints.read_text())
            except (OSError, ValueError):
                return None

        found = poll(published, 60, lambda: f"the head does not start:\n{self.log.read_text()}")
        address = found["http"].removeprefix("http://").rstrip("/")
        self.api = Api(address, (DATA_DIR / "token").read_text().strip())
        poll(lambda: sum(n["state"] == "alive" for n in self.api.nodes().values()) == 2, 60, "the nodes do not join")

    def link(self) -> str:
        """Opens the dashboard, once."""
        return self.api.call("POST", "/api/v1/session/links")["url"]

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)


def train(api: Api, example: str) -> dict:
    """Submits an example and shows its progress until it has ended."""
    job = api.submit(json.loads((ROOT / "examples" / example).read_text()))
    print(f"\n{job['name']}: job {job['id']}", flush=True)
    shown = -1

    def ended() -> dict | None:
        nonlocal shown
        found = api.job(job["id"])
        total = found["steps_total"] or 0
        tenth = 10 * found["step"] // total if total else -1
        if found["step"] and (tenth > shown or INTERACTIVE):
            shown = max(shown, tenth)
            summary = found["summary"]
            line = f"  step {found['step']:4d}/{total}"
            for name, form in (("loss", ".3f"), ("accuracy", ".1%"), ("samples_per_second", ",.0f")):
                if summary.get(name) is not None:
                    line += f"   {name.replace('_', ' ')} {summary[name]:{form}}"
            print(f"\r{line:<100}" if INTERACTIVE else line, end="" if INTERACTIVE else "\n", flush=True)
        return found if found["state"] in ENDED else None

    found = poll(ended, 3600, f"{job['name']} does not end")
    print(f"\n  {found['state']}" + (f": {found['reason']}" if found["reason"] else ""), flush=True)
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
  sent by each worker                {megabytes(a['bytes_sent'] / workers)} {megabytes(b['bytes_sent'] / workers)}
  sent by each worker after warm-up                {megabytes(after)}    {ring / after:.0f} times fewer than the """
          f"""dense ring's{megabytes(ring)}
  (bytes are those written to the gradient sockets)""")


def main() -> int:
    cluster = Cluster()
    try:
        print(f"head and two nodes are up; the dashboard: {cluster.link()}", flush=True)
        dense = train(cluster.api, "lenet-none.json")
        compressed = train(cluster.api, "lenet-dgc.json")
        succeeded = dense["state"] == compressed["state"] == "SUCCEEDED"
        if succeeded:
            report(dense, compressed)
        print(f"\ndashboard: http://{cluster.api.address}/")
        if INTERACTIVE:
            print(f"opened by this link: {cluster.link()}\nCtrl-C stops the cluster.", flush=True)
            cluster.process.wait()
        return 0 if succeeded else 1
    except KeyboardInterrupt:
        print("\nstopping", flush=True)
        return 130 if "compressed" not in locals() else 0
    finally:
        cluster.stop()


if __name__ == "__main__":
    sys.exit(main())
