#!/usr/bin/env python3
"""Brings the compose file up for real: a job over the published port, a node's container killed, all down again.

Uses `docker compose` where a Docker engine answers, and podman as root otherwise. For podman the base image is made
from the machine's own Debian mirror, so that no image registry is needed. Images stay, as a cache; all else is removed.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from weir_api import ENDED, Api, poll  # noqa: E402  (needs the path above)

COMPOSE = ROOT / "docker" / "compose.yaml"
PROJECT = f"weirtest{os.getpid()}"
BASE = "docker.io/library/debian:bookworm"
LONG = 100000


def say(text: str) -> None:
    print(f"== {text}", flush=True)


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


class Docker:
    def compose(self, *arguments: str) -> None:
        subprocess.run(["docker", "compose", "-p", PROJECT, "-f", str(COMPOSE), *arguments], check=True)

    def build(self) -> None:
        self.compose("build")

    def container(self, service: str) -> str:
        return f"{PROJECT}-{service}-1"

    def run(self, *arguments: str) -> str:
        return output("docker", *arguments)

    def healthy(self, service: str) -> bool:
        return self.run("inspect", "-f", "{{.State.Health.Status}}", self.container(service)) == "healthy"


class Podman:
    """Debian's podman. Its settings come from a file of ours, so that the machine's own stay as they are."""

    def __init__(self, folder: Path):
        settings = folder / "containers.conf"
        settings.write_text(
            # Limits that a machine without CAP_SYS_RESOURCE can grant, and the runtime that copes with hybrid cgroups.
            '[containers]\ndefault_ulimits = ["nofile=20000:20000", "nproc=4096:4096"]\n'
            '[engine]\nruntime = "runc"\n[network]\nnetwork_backend = "netavark"\n')
        os.environ["CONTAINERS_CONF"] = str(settings)
        self.folder = folder

    def compose(self, *arguments: str) -> None:
        subprocess.run(["podman-compose", "-p", PROJECT, "-f", str(COMPOSE), *arguments], check=True)
        if arguments[0] == "down":  # which forgets these
            for kind in ("pod", "network"):
                for name in self.run(kind, "ls", "-q", "--filter", f"name={PROJECT}").split():
                    self.run(kind, "rm", "-f", name)

    def build(self) -> None:
        if subprocess.run(["podman", "image", "exists", BASE]).returncode != 0:
            self.make_base()
        for target in ("head", "node"):
            subprocess.run(["podman", "build", "--network", "host", "--build-arg", f"JOBS={os.cpu_count()}", "--target",
                            target, "-t", f"weir-{target}", "-f", str(ROOT / "docker" / "Dockerfile"), str(ROOT)],
                           check=True)

    def make_base(self) -> None:
        say("base image from this machine's Debian mirror")
        root = self.folder / "base"
        lines = output("apt-get", "indextargets", "--format", "$(SITE) $(CODENAME) $(COMPONENT)",
                       "Created-By: Packages").splitlines()
        sources = sorted({tuple(line.split()) for line in lines if line.split()[1].startswith("bookworm")})
        mirror = next(site for site, codename, _ in sources if codename == "bookworm")
        subprocess.run(["debootstrap", "--variant=minbase", "bookworm", str(root), mirror], check=True,
                       stdout=subprocess.DEVNULL)
        # Inside, apt and npm reach the network as they do on this machine.
        apt = root / "etc" / "apt"
        (apt / "sources.list").write_text("".join(f"deb {' '.join(source)}\n" for source in sources))
        (apt / "apt.conf.d" / "90machine").write_text(output("apt-config", "dump", "Acquire") + "\n")
        certificates = root / "etc" / "ssl" / "certs" / "ca-certificates.crt"
        certificates.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy("/etc/ssl/certs/ca-certificates.crt", certificates)
        with subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE) as tar:
            trusted = f"ENV NODE_EXTRA_CA_CERTS=/{certificates.relative_to(root)}"
            subprocess.run(["podman", "import", "--change", trusted, "-", BASE], stdin=tar.stdout, check=True)

    def container(self, service: str) -> str:
        return f"{PROJECT}_{service}_1"

    def run(self, *arguments: str) -> str:
        return output("podman", *arguments)

    def healthy(self, service: str) -> bool:
        command = ["podman", "healthcheck", "run", self.container(service)]
        return subprocess.run(command, capture_output=True).returncode == 0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def lenet(steps: int) -> dict:
    return {"name": "containers", "model": {"name": "lenet"}, "dataset": {"name": "fashion-mnist"},
            "training": {"max_steps": steps}, "compression": {"name": "dgc"}, "resources": {"workers": 4},
            "fault_tolerance": {"max_restarts": 0}}


def check(engine, address: str) -> None:
    services = ("head", "node-1", "node-2")
    for service in services:
        poll(lambda: engine.healthy(service), 120, f"{service} does not become healthy")
    say("all healthy")

    token = engine.run("exec", engine.container("head"), "cat", "/data/token")
    api = Api(address, token)
    poll(lambda: {"node-1", "node-2"} <= api.nodes().keys(), 60, "the nodes do not join")
    job = api.submit(lenet(20))
    ended = api.wait_ended(job["id"])
    assert ended["state"] == "SUCCEEDED", ended["reason"]
    assert {w["node"] for w in ended["workers"]} == {"node-1", "node-2"}, ended["workers"]
    sent = ended["summary"]["bytes_sent"]
    say(f"a job over the published port: {ended['state']}, {sent} bytes sent between containers")

    for service in services:
        user = engine.run("exec", engine.container(service), "id", "-u")
        assert user == "10001", f"{service} runs as user {user}"
    files = engine.run("exec", engine.container("node-1"), "find", "/run/weir", "/data", "-type", "f")
    assert files == "/run/weir/token", f"a node sees more of the head than the token: {files}"

    running = api.submit(lenet(LONG))["id"]
    api.wait_step(running, 2)
    engine.run("kill", "-s", "KILL", engine.container("node-2"))
    ended = api.wait_job(running, lambda j: j["state"] in ENDED, 60, "the job of a killed node ends")
    assert ended["state"] == "FAILED" and "node-2" in ended["reason"], ended["reason"]
    poll(lambda: api.nodes()["node-2"]["state"] == "lost", 30, "node-2 is not declared lost")
    say(f"a node's container killed: the job is FAILED ({ended['reason']}), the node is lost, the head goes on")

    engine.run("start", engine.container("node-2"))
    poll(lambda: api.nodes()["node-2"]["state"] == "alive", 60, "node-2 does not join again")
    again = api.wait_ended(api.submit(lenet(5))["id"])
    assert again["state"] == "SUCCEEDED", again["reason"]
    say("the node's container started again: it joins and takes work")


def main() -> int:
    port = free_port()
    os.environ["WEIR_HTTP_PORT"] = str(port)
    with tempfile.TemporaryDirectory(prefix="weir-docker-") as folder:
        docker = shutil.which("docker") and subprocess.run(["docker", "info"], capture_output=True).returncode == 0
        engine = Docker() if docker else Podman(Path(folder))
        say(f"building images with {type(engine).__name__}")
        engine.build()
        try:
            engine.compose("up", "-d")
            check(engine, f"127.0.0.1:{port}")
        except BaseException:
            for service in ("head", "node-1", "node-2"):
                print(f"---- {service}", flush=True)
                subprocess.run([type(engine).__name__.lower(), "logs", "--tail", "40", engine.container(service)])
            raise
        finally:
            engine.compose("down", "-v")
        left = engine.run("ps", "-a", "-q", "--filter", f"name={PROJECT}")
        left += engine.run("volume", "ls", "-q", "--filter", f"name={PROJECT}")
        left += engine.run("network", "ls", "-q", "--filter", f"name={PROJECT}")
        assert not left, f"left behind: {left}"
    print("1 passed, 0 failed, 0 skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
