#!/usr/bin/env python3
"""Brings the compose file up for real: a job over the published port, a node's container killed, all down again.

Uses `docker compose` where a Docker engine answers, and podman as root otherwise. For podman the base image is made
from the machine's own Debian mirror, so that no image registry is needed. Images stay, as a cache; all else is removed,
after a failure or a signal too.
"""

import os
import signal
import socket
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

from engines import COMPOSE, OVERLAY, Docker, Engine, Podman  # noqa: E402  (needs the path above)
from weir_api import ENDED, Api, poll  # noqa: E402

SERVICES = ("head", "node-1", "node-2")
LONG = 100000


def say(text: str) -> None:
    print(f"== {text}", flush=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def lenet(steps: int) -> dict:
    return {"name": "containers", "model": {"name": "lenet"}, "dataset": {"name": "fashion-mnist"},
            "training": {"max_steps": steps}, "compression": {"name": "dgc"}, "resources": {"workers": 4},
            "fault_tolerance": {"max_restarts": 0}}


def await_healthy(engine: Engine) -> None:
    for service in SERVICES:
        poll(lambda: engine.healthy(service), 120, f"{service} does not become healthy")


def train(api: Api) -> dict:
    ended = api.wait_ended(api.submit(lenet(20))["id"])
    assert ended["state"] == "SUCCEEDED", ended["reason"]
    assert {w["node"] for w in ended["workers"]} == {"node-1", "node-2"}, ended["workers"]
    return ended


def check_confinement(engine: Engine, port: int) -> None:
    for service in SERVICES:
        inside = [engine.container(service), "cat", "/proc/1/status", "/proc/mounts"]
        lines = [line.split() for line in engine.ask("exec", *inside).splitlines()]
        status = {words[0]: words[1:] for words in lines if words[0].endswith(":")}
        assert status["Uid:"] == ["10001"] * 4, f"{service} runs as user {status['Uid:']}"
        assert set(status["CapBnd:"][0]) == {"0"}, f"{service} has capabilities: {status['CapBnd:']}"
        assert status["NoNewPrivs:"] == ["1"], f"{service} may gain privileges"
        root = next(words for words in lines if words[1:2] == ["/"])
        assert "ro" in root[3].split(","), f"the root file system of {service} can be written to: {root}"
    files = engine.ask("exec", engine.container("node-1"), "find", "/run/weir", "/data", "-type", "f")
    assert files == "/run/weir/node_secret", f"a node sees more of the head than its secret: {files}"
    published = engine.ask("port", engine.container("head"))
    assert published == f"{port}/tcp -> 127.0.0.1:{port}", f"published: {published}"


def check_overlay(engine: Engine) -> None:
    """The overlay adds a node with the GPUs, as confined as the others, and leaves the rest as it is."""
    without, together = engine.services(COMPOSE), engine.services(COMPOSE, OVERLAY)
    assert sorted(without) == sorted(SERVICES), sorted(without)
    assert {name: together[name] for name in SERVICES} == without, "the overlay changes other services"
    asks = {name: service["deploy"]["resources"]["reservations"]["devices"]
            for name, service in together.items() if "deploy" in service}
    (device,) = asks.pop("node-cuda")
    assert not asks, f"not only the GPU's node reserves devices: {asks}"
    # Docker shows `all` as -1.
    assert device["driver"] == "nvidia" and device["count"] in ("all", -1) and device["capabilities"] == ["gpu"], device
    node, cuda = together["node-1"], together["node-cuda"]
    for key in ("read_only", "cap_drop", "security_opt", "tmpfs", "restart", "logging", "depends_on", "volumes",
                "command", "healthcheck"):
        assert cuda[key] == node[key], f"node-cuda has another {key} than node-1: {cuda[key]}"


def check(engine: Engine, port: int) -> None:
    await_healthy(engine)
    say("head and nodes are healthy")

    head, node_2 = engine.container("head"), engine.container("node-2")
    link = engine.ask("exec", head, "weir", "token", "link")
    assert link.startswith(f"http://127.0.0.1:{port}/login?code="), link
    api = Api(f"127.0.0.1:{port}", engine.ask("exec", head, "weir", "token", "show"))
    page = api.request("GET", link.removeprefix(f"http://127.0.0.1:{port}"))
    assert page[0] in (200, 303), f"the dashboard's link gives {page}"
    sent = train(api)["summary"]["bytes_sent"]
    say(f"a job over the published port: SUCCEEDED, both nodes at work, {sent} bytes sent")

    check_confinement(engine, port)
    say("no root, no capabilities, read-only root file systems, published on the loopback only")

    running = api.submit(lenet(LONG))["id"]
    api.wait_step(running, 2)
    engine.ask("kill", "-s", "KILL", node_2)
    ended = api.wait_job(running, lambda job: job["state"] in ENDED, 60, "the job of a killed node ends")
    assert ended["state"] == "FAILED" and "node-2" in ended["reason"], ended["reason"]
    poll(lambda: api.nodes()["node-2"]["state"] == "lost", 30, "node-2 is not declared lost")
    say(f"node-2's container killed: the job is FAILED ({ended['reason']}), the node is lost, the head goes on")

    engine.ask("start", node_2)
    poll(lambda: api.nodes()["node-2"]["state"] == "alive", 60, "node-2 does not join again")
    train(api)
    say("node-2's container started again: it joins and takes work")

    # As after a restart of the machine, where nobody keeps an order.
    before = api.get("/api/v1/jobs")["jobs"]
    engine.ask("stop", *map(engine.container, SERVICES))
    for service in reversed(SERVICES):
        engine.ask("start", engine.container(service))
    await_healthy(engine)
    assert [job["id"] for job in api.get("/api/v1/jobs")["jobs"]] == [job["id"] for job in before]
    train(api)
    say("all stopped, nodes started before the head: they find each other, no job is forgotten, a new one SUCCEEDED")

    engine.compose("down", "-v")
    left = engine.left()
    assert not left, f"left behind: {left}"
    say("down: nothing is left")


def on_signals(handler) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, handler)


def ignore(_number: int, _frame) -> None:
    """All is being taken down already."""


def stop(number: int, _frame) -> None:
    on_signals(ignore)
    sys.exit(128 + number)


def main() -> int:
    docker = Docker.answers()
    if not docker and os.geteuid() != 0:
        os.execvp("sudo", ["sudo", sys.executable, *sys.argv])
    on_signals(stop)
    port = free_port()
    os.environ["WEIR_HTTP_PORT"] = str(port)
    project = f"weirtest{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="weir-docker-") as folder:
        engine = Docker(project) if docker else Podman(project, Path(folder))
        check_overlay(engine)
        say("compose.cuda.yaml adds a node with the GPUs, confined as the others, and changes nothing else")
        say(f"building images with {engine.program}")
        engine.build()
        try:
            engine.compose("up", "-d")
            check(engine, port)
        except BaseException:
            engine.print_logs()
            raise
        finally:
            on_signals(ignore)
            engine.remove()
    print("1 passed, 0 failed, 0 skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
