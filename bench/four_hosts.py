"""Four hosts for workers and one for the head, as network namespaces joined by a bridge, each with a token-bucket
filter on its way out. Needs root and tc."""

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "system"), str(ROOT / "scripts")]

from cluster import BIN, Cluster  # noqa: E402, F401
from hosts import Hosts, ip  # noqa: E402

WORKERS = 4
BITS = {"gbit": 1e9, "mbit": 1e6, "kbit": 1e3}
CLONE_NEWNET = 0x40000000
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth0"}


def bits_per_second(rate: str) -> float | None:
    """Of a rate as tc takes it; None without a limit. ValueError if it is none."""
    if rate == "none":
        return None
    if not (parts := re.fullmatch(rf"(\d+(?:\.\d+)?)({'|'.join(BITS)})", rate)):
        raise ValueError(f"{rate} is no rate: none, or a number with {', '.join(BITS)}")
    return float(parts[1]) * BITS[parts[2]]


def complaint(programs: list[str], python: str | None = None, data: Path | None = None) -> str | None:
    """What is missing for measurements that need those programs, with `python` PyTorch under that interpreter, and
    with `data` Fashion-MNIST in that folder."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program in ("ip", "tc", *programs):
        if not shutil.which(program):
            return f"the program {program} is missing"
    if not (BIN / "weir-worker").exists():
        return f"there is no weir-worker in {BIN}: build it, or name its folder in WEIR_BIN_DIR"
    if data and not (data / "train-images-idx3-ubyte.gz").exists():
        return f"there is no Fashion-MNIST in {data}"
    if python:
        imports = [python, "-c", "import torch.distributed as d; d.TCPStore"]
        if not shutil.which(python) or subprocess.run(imports, capture_output=True).returncode != 0:
            return f"{python} has no PyTorch with torch.distributed: name another with --python"
    return None


def enter(namespace: str) -> None:
    """This process goes on in that network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{namespace}") as place:
        if libc.setns(place.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter the network namespace {namespace}")


class FourHosts:
    """Hosts 1 to 4 are for workers, and host 0 for the head, where this process is, too."""

    def __init__(self, congestion: str = "cubic"):
        self.congestion = congestion  # TCP's, on all hosts
        self.hosts = Hosts(WORKERS + 1)
        self.cluster = Cluster()
        self.port = 20000

    def __enter__(self):
        try:
            self.hosts.make()
            for i in range(1, WORKERS + 1):
                # By the route: namespaces may not choose all that the machine has.
                ip("-n", self.hosts.names[i], "route", "replace", "10.77.0.0/24", "dev", "eth0", "src",
                   self.hosts.address(i), "congctl", self.congestion)
            enter(self.hosts.names[0])
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        try:
            for problem in self.cluster.close():
                print(problem, file=sys.stderr)
        finally:
            self.hosts.remove()
            shutil.rmtree(self.cluster.folder, ignore_errors=True)

    def start_cluster(self, cpu: float = 1) -> None:
        """A head and four nodes."""
        head = self.hosts.address(0)
        self.cluster.start_head("--insecure", listen=f"{head}:6380", http="127.0.0.1:8265")
        names = [f"host{i}" for i in range(1, WORKERS + 1)]
        for i, name in enumerate(names, start=1):
            self.cluster.start_node(name, cpu, head=f"{head}:6380", prefix=self.hosts.inside(i))
        self.cluster.await_nodes(*names)

    def limit(self, rate: str) -> None:
        """Lets each worker host send at most `rate`; "none" lifts the limit."""
        for i in range(1, WORKERS + 1):
            subprocess.run([*self.hosts.inside(i), "tc", "qdisc", "del", "dev", "eth0", "root"], capture_output=True)
            if rate != "none":
                subprocess.run([*self.hosts.inside(i), "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate,
                                "burst", "128kb", "latency", "200ms"], check=True)

    def rank_commands(self, command: list, together: bool = False) -> list[list[str]]:
        """The command of each rank, on its host, or all on one host if `together`. In `command`, {rank}, {store} and
        {peers} are replaced."""
        self.port += WORKERS + 1  # other ones each time: nothing has to be waited for
        places = [1 if together else i for i in range(1, WORKERS + 1)]
        peers = ",".join(f"{self.hosts.address(place)}:{self.port + rank}" for rank, place in enumerate(places))
        store = f"{self.hosts.address(1)}:{self.port + WORKERS}"
        return [[*self.hosts.inside(place),
                 *(str(word).format(rank=rank, store=store, peers=peers) for word in command)]
                for rank, place in enumerate(places)]

    def run_ranks(self, command: list, together: bool = False) -> list[dict]:
        """The rows that rank 0 prints. Ends all ranks as soon as one has failed: the others may wait for it."""
        processes: list[subprocess.Popen] = []
        with ThreadPoolExecutor(WORKERS) as readers:
            try:
                for words in self.rank_commands(command, together):
                    processes.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                                      env=ONE_THREAD))
                outputs = {readers.submit(process.communicate): rank for rank, process in enumerate(processes)}
                rows = []
                for done in as_completed(outputs):
                    rank, (out, error) = outputs[done], done.result()
                    if processes[rank].returncode != 0:
                        raise SystemExit(f"rank {rank} of {' '.join(map(str, command))}:\n{error}")
                    if rank == 0:
                        rows = [json.loads(line) for line in out.splitlines()]
                return rows
            finally:
                for process in processes:
                    process.kill()
