"""Real weir processes for system tests: started on ports the system chooses, and gone, all of them, after each test."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from weir_api import Api, poll  # noqa: E402  (needs the path above)

BIN = Path(os.environ.get("WEIR_BIN_DIR", ROOT / "build" / "release" / "bin"))
MARK = "WEIR_TEST_MARK"  # in the environment of every process of a test, inherited by what they start
PATIENCE = 180  # seconds: what happens at all has happened by then, on a machine under any load


def processes_with(mark: str) -> dict[int, str]:
    """Command lines of the living processes that carry this mark, by process id."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            except OSError:
                pass  # it ended while being looked at
    return found


class Process:
    """One process of ours with its output in a file."""

    def __init__(self, arguments: list, log: Path, environment: dict[str, str], prefix: list[str] = []):
        self.log = log
        with log.open("ab") as output:
            self.popen = subprocess.Popen([*prefix, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=output,
                                          stderr=output, env=environment, start_new_session=True)
        self.pid = self.popen.pid

    def alive(self) -> bool:
        return self.popen.poll() is None

    def signal(self, number: int) -> None:
        if self.alive():
            os.kill(self.pid, number)

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        self.popen.wait(PATIENCE)

    def stop(self, seconds: float = PATIENCE) -> int:
        """Asks politely; gives the exit status. One that does not listen is a failure of the test."""
        self.signal(signal.SIGTERM)
        return self.popen.wait(seconds)


class Cluster:
    """A head and its nodes. `prefix` arguments put a process elsewhere, such as into a network namespace."""

    def __init__(self, **environment: str):
        self.mark = uuid.uuid4().hex
        self.folder = Path(tempfile.mkdtemp(prefix="weir-system-"))
        self.data_dir = self.folder / "head"
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("WEIR_")}
        self.environment |= {MARK: self.mark, "NO_COLOR": "1", "HOME": str(self.folder), **environment}
        self.head: Process | None = None
        self.node_processes: dict[str, Process] = {}
        self.api = Api("", None)
        self.control = ""
        self.node_secret = ""
        self.held: list[socket.socket] = []

    def weir(self, *arguments, name: str, prefix: list[str] = []) -> Process:
        return Process([BIN / "weir", *arguments], self.folder / f"{name}.log", self.environment, prefix)

    def run(self, *arguments, seconds: float = PATIENCE, **environment: str) -> subprocess.CompletedProcess:
        """A `weir` command that ends by itself."""
        return subprocess.run([BIN / "weir", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=seconds, env={**self.environment, **environment})

    def address_of_its_own(self) -> str:
        """One that nobody else is given until the test ends, also while the head is down: its port is bound here, but
        not listening, so that the head may bind it, too."""
        held = socket.socket()
        self.held.append(held)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{held.getsockname()[1]}"

    def start_head(self, *arguments, listen: str = "", http: str = "", prefix: list[str] = []) -> None:
        endpoints = self.data_dir / "endpoints.json"
        endpoints.unlink(missing_ok=True)
        self.head = self.weir("head", "--data-dir", self.data_dir, "--listen", listen or self.address_of_its_own(),
                              "--http", http or self.address_of_its_own(), *arguments, name="head", prefix=prefix)
        self.await_endpoints(self.head)

    def await_endpoints(self, process: Process) -> None:
        """Waits until the head under `process` listens, and learns where."""
        def published() -> dict | None:
            if not process.alive():
                raise AssertionError(f"it ended with {process.popen.returncode}:\n{self.output(process)}")
            try:
                return json.loads((self.data_dir / "endpoints.json").read_text())
            except (OSError, ValueError):
                return None

        found = poll(published, PATIENCE, lambda: f"no endpoints.json from the head:\n{self.output(process)}")
        self.control = found["control"]
        self.node_secret = (self.data_dir / "node_secret").read_text().strip()
        self.api = Api(found["http"].removeprefix("http://").rstrip("/"), (self.data_dir / "token").read_text().strip())

    def start_node(self, name: str, cpu: float = 2, *arguments, head: str = "", prefix: list[str] = []) -> Process:
        environment = {"WEIR_NODE_SECRET": self.node_secret}
        log = self.folder / f"{name}.log"
        process = Process([BIN / "weir", "node", "--head", head or self.control, "--name", name, "--resources",
                           f"cpu={cpu:g}", *arguments], log, {**self.environment, **environment}, prefix)
        self.node_processes[name] = process
        return process

    def start(self, nodes: dict[str, float]) -> None:
        """A head and nodes by name with their cores; returns when all have joined."""
        self.start_head()
        for name, cpu in nodes.items():
            self.start_node(name, cpu)
        self.await_nodes(*nodes)

    def await_nodes(self, *names: str, api: Api | None = None) -> None:
        def joined() -> bool:
            for name in names:
                process = self.node_processes.get(name)
                if process and not process.alive():
                    raise AssertionError(f"node {name} ended:\n{self.output(process)}")
            found = (api or self.api).nodes()
            return all(found.get(name, {}).get("state") == "alive" for name in names)

        poll(joined, PATIENCE, lambda: f"nodes {names} do not join")

    def await_idle(self, *nodes: str) -> None:
        """Waits until no worker runs and the nodes named have all their cores free again."""
        def idle() -> bool:
            found = self.api.nodes()
            return not self.worker_processes() and all(not found[n]["used"].get("cpu") for n in nodes)

        poll(idle, PATIENCE,
             lambda: f"workers left {self.worker_processes()}; used {[self.api.nodes()[n] for n in nodes]}")

    def await_attempt(self, job_id: str, restarts: int) -> dict:
        """The job, once it trains after so many restarts."""
        return self.api.wait_job(job_id, lambda j: j["restarts"] == restarts and j["phase"] == "training", PATIENCE,
                                 f"attempt {restarts + 1}")

    def worker_processes(self) -> list[int]:
        return [pid for pid, command in processes_with(self.mark).items()
                if Path(command.split(" ")[0]).name == "weir-worker"]

    def output(self, process: Process) -> str:
        return process.log.read_text(errors="replace")[-4000:]

    def close(self) -> list[str]:
        """Ends everything; says what went wrong with it: processes that do not stop or that outlive their parents."""
        wrong = []
        ours = [*self.node_processes.items(), *([("head", self.head)] if self.head else [])]
        for name, process in ours:
            try:
                process.stop()
            except subprocess.TimeoutExpired:
                wrong.append(f"{name} does not stop on SIGTERM:\n{self.output(process)}")
                process.kill()
        try:
            poll(lambda: not processes_with(self.mark), PATIENCE, "")
        except TimeoutError:
            for pid, command in processes_with(self.mark).items():
                wrong.append(f"left behind: {pid} {command}")
                with contextlib.suppress(ProcessLookupError):  # it has just ended
                    os.kill(pid, signal.SIGKILL)
        for held in self.held:
            held.close()
        return wrong


class SystemTest(unittest.TestCase):
    """A test with a cluster of its own. Prints the ends of the processes' logs, which ctest shows when it fails."""

    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self._close)

    def _close(self):
        wrong = self.cluster.close()
        for log in sorted(self.cluster.folder.rglob("*.log")):
            print(f"---- {log.relative_to(self.cluster.folder)}\n{log.read_text(errors='replace')[-3000:]}")
        shutil.rmtree(self.cluster.folder, ignore_errors=True)
        if wrong:
            self.fail("\n".join(wrong))


def job(workers: int = 2, steps: int = 20, compressor: str = "none", **changes) -> dict:
    """A small LeNet job. `changes` replaces whole sections of the spec."""
    return {
        "name": f"system-{compressor}",
        "model": {"name": "lenet"},
        "dataset": {"name": "fashion-mnist"},
        # Epochs enough for any number of steps; a learning rate at which they all stay finite.
        "training": {"epochs": 1000, "max_steps": steps, "batch_size": 16, "seed": 7, "optimizer": {"lr": 0.01}},
        "compression": {"name": compressor},
        "resources": {"workers": workers},
        "evaluation": {"every_steps": 100000},
        **changes,
    }


# (exit code, signal) of a worker that has ended its work: by itself, or by its agent, which has to kill one that a busy
# machine does not run in the seconds that it is given to leave. One that dies before fails its job.
ORDERLY_EXITS = ((0, None), (None, signal.SIGKILL))
LONG = 100000  # more steps than any test waits for: a job that runs until something ends it
