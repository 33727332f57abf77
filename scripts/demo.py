#!/usr/bin/env python3
"""`make run`: a cluster on this machine, the same training without and with compression, and what that changed.

In a terminal the cluster stays up afterwards, for the browser, until Enter; otherwise it is stopped.
"""

import json
import os
import shutil
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


class Broken(Exception):
    """The demo cannot go on; says why."""


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


class Cluster:
    """`weir up` in the background: a head, two nodes of two slots each. Ends with the `with` block."""

    def __enter__(self) -> "Cluster":
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
            self.check()
            try:
                return json.loads(endpoints.read_text())
            except (OSError, ValueError):
                return None

        try:
            found = poll(published, 60, lambda: f"the head does not start:\n{self.tail()}")
            address = found["http"].removeprefix("http://").rstrip("/")
            self.api = Api(address, (DATA_DIR / "token").read_text().strip())
            joined = lambda: sum(node["state"] == "alive" for node in self.api.nodes().values()) == 2
            poll(joined, 60, lambda: f"the nodes do not join:\n{self.tail()}")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])

    def check(self) -> None:
        """Raises Broken if it has ended by itself."""
        if self.process.poll() is not None:
            raise Broken(f"weir up ended with {self.process.returncode}; the end of {self.log}:\n{self.tail()}")

    def link(self) -> str:
        """Opens the dashboard, once."""
        return self.api.call("POST", "/api/v1/session/links")["url"]

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()  # which takes its children with it
                self.process.wait()


class Line:
    """The line that shows how far a job is: rewritten in place on a terminal, else a new one for each tenth."""

    def __init__(self) -> None:
        self.tenth = -1
        self.open = False

    def show(self, job: dict) -> None:
        total = job["steps_total"] or 0
        tenth = 10 * job["step"] // total if total else -1
        if not job["step"] or not (tenth > self.tenth or INTERACTIVE):
            return
        self.tenth = max(self.tenth, tenth)
        summary = job["summary"]
        text = f"  step {job['step']:4d}/{total}"
        for name, form in (("loss", ".3f"), ("accuracy", ".1%"), ("samples_per_second", ",.0f")):
            if summary.get(name) is not None:
                text += f"   {name.replace('_', ' ').replace(' per second', '/s')} {summary[name]:{form}}"
        if INTERACTIVE:
            columns = shutil.get_terminal_size().columns
            print(f"\r{text[:columns - 1]}\x1b[K", end="", flush=True)
            self.open = True
        else:
            print(text, flush=True)

    def finish(self) -> None:
        if self.open:
            print(flush=True)
        self.open = False


def train(cluster: Cluster, example: str) -> dict:
    """Submits an example and shows its progress until it has ended."""
    job = cluster.api.submit(json.loads((ROOT / "examples" / example).read_text()))
    print(f"\n{job['name']}: job {job['id']}", flush=True)
    line = Line()

    def ended() -> dict | None:
        cluster.check()
        found = cluster.api.job(job["id"])
        line.show(found)
        return found if found["state"] in ENDED else None

    try:
        found = poll(ended, 3600, f"{job['name']} does not end")
    finally:
        line.finish()
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


def demonstrate(cluster: Cluster) -> int:
    print(f"head and two nodes are up; the dashboard: {cluster.link()}", flush=True)
    dense = train(cluster, "lenet-none.json")
    compressed = train(cluster, "lenet-dgc.json")
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


def hung_up(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def main() -> int:
    # A terminal that is closed must not leave the cluster behind.
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, hung_up)
    try:
        with Cluster() as cluster:
            return demonstrate(cluster)
    except KeyboardInterrupt:
        print("stopped", flush=True)
        return 130
    except (Broken, TimeoutError, OSError) as error:
        print(f"make run: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
