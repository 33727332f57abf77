"""A cluster on this machine for scripts, and how they show a job's progress."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TextIO

from weir_api import ENDED, Api, poll

ROOT = Path(__file__).resolve().parent.parent
WEIR = Path(os.environ.get("WEIR_BIN_DIR", ROOT / "build" / "release" / "bin")) / "weir"
INTERACTIVE = sys.stdin.isatty() and sys.stdout.isatty() and not os.environ.get("CI")


class Broken(Exception):
    """The cluster does not come up or has ended; says why."""


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


def parent(pid: int) -> int | None:
    """Of a process of this machine; None if there is none of this id."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()  # a name may hold anything
    except OSError:
        return None
    return int(fields[1])


class Cluster:
    """`weir up` in the background: a head and nodes of two slots each. Ends with the `with` block.

    The folder may be another cluster's, as of a second `make run`: then ours refuses it, and nothing there is touched.
    """

    def __init__(self, data_dir: Path, nodes: int):
        self.data_dir = data_dir
        self.nodes = nodes

    def __enter__(self) -> "Cluster":
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self.log = self.data_dir / "up.log"
        endpoints = self.data_dir / "endpoints.json"
        command = [WEIR, "up", "--nodes", self.nodes, "--cpus-per-node", "2", "--data-dir", self.data_dir]
        command += ["--http", f"127.0.0.1:{8265 if is_free(8265) else 0}"]
        command += ["--listen", f"127.0.0.1:{6380 if is_free(6380) else 0}"]
        with self.log.open("ab") as log:
            self.log_start = log.tell()
            self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=True)  # Ctrl-C is for us; we stop it in order

        def published() -> dict | None:
            self.check()
            try:
                found = json.loads(endpoints.read_text())
            except (OSError, ValueError):
                return None
            return found if parent(found["pid"]) == self.process.pid else None  # else it is from an earlier head

        try:
            found = poll(published, 60, lambda: f"the head does not start:\n{self.tail()}")
            address = found["http"].removeprefix("http://").rstrip("/")
            self.api = Api(address, (self.data_dir / "token").read_text().strip())
            joined = lambda: sum(node["state"] == "alive" for node in self.api.nodes().values()) == self.nodes
            poll(joined, 60, lambda: f"the nodes do not join:\n{self.tail()}")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def tail(self) -> str:
        with self.log.open("rb") as log:
            log.seek(self.log_start)
            return "\n".join(log.read().decode(errors="replace").splitlines()[-20:])

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

    def __init__(self, out: TextIO) -> None:
        self.out = out
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
            print(f"\r{text[:columns - 1]}\x1b[K", end="", file=self.out, flush=True)
            self.open = True
        else:
            print(text, file=self.out, flush=True)

    def finish(self) -> None:
        if self.open:
            print(file=self.out, flush=True)
        self.open = False


def follow(cluster: Cluster, job: dict, seconds: float, out: TextIO = sys.stdout) -> dict:
    """Shows the progress of a job until it has ended, and gives it. TimeoutError after `seconds`."""
    line = Line(out)

    def ended() -> dict | None:
        cluster.check()
        found = cluster.api.job(job["id"])
        line.show(found)
        return found if found["state"] in ENDED else None

    try:
        return poll(ended, seconds, f"{job['name']} does not end")
    finally:
        line.finish()


def exit_on_signals() -> None:
    """A terminal that is closed must not leave a cluster behind."""
    def leave(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, leave)
