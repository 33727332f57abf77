"""The same commands on three hosts: a head and two nodes in network namespaces, joined by a bridge."""

import json
import os
import subprocess
import unittest
from pathlib import Path

from cluster import SystemTest, job
from weir_api import Api


def ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


class Hosts:
    """Namespaces h0, h1, ... with addresses 10.77.0.1, 10.77.0.2, ... on a bridge that has a namespace of its own."""

    def __init__(self, count: int):
        self.prefix = f"weir{os.getpid()}"
        self.names = [f"{self.prefix}h{i}" for i in range(count)]
        self.switch = f"{self.prefix}sw"
        self.made: list[str] = []

    def make(self) -> None:
        for name in (self.switch, *self.names):
            ip("netns", "add", name)
            self.made.append(name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", self.switch, "link", "set", "bridge", "up")
        for i, name in enumerate(self.names):
            ip("link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", f"port{i}", "netns", self.switch)
            ip("-n", name, "address", "add", f"{self.address(i)}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", self.switch, "link", "set", f"port{i}", "master", "bridge", "up")

    def address(self, i: int) -> str:
        return f"10.77.0.{i + 1}"

    def inside(self, i: int) -> list[str]:
        return ["ip", "netns", "exec", self.names[i]]

    def bytes_from(self, i: int) -> int:
        """Bytes that host i has sent into the bridge."""
        command = [*self.inside(i), "cat", "/sys/class/net/eth0/statistics/tx_bytes"]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    def remove(self) -> None:
        for name in self.made:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)


class ApiInside(Api):
    """The API of a head in another namespace: requests are made by a process there."""

    def __init__(self, address: str, token: str | None, inside: list[str]):
        super().__init__(address, token)
        self.inside = inside

    def request(self, method, path, body=None, headers=None, seconds=30):
        code = ("import json,sys; sys.path.insert(0, sys.argv[1]); from weir_api import Api; "
                "q = json.load(sys.stdin); s, h, b = Api(q['address'], q['token']).request("
                "q['method'], q['path'], q['body'], q['headers']); print(json.dumps([s, h, b.decode()]))")
        question = {"address": self.address, "token": self.token, "method": method, "path": path, "body": body,
                    "headers": headers}
        scripts = str(Path(__file__).resolve().parent.parent.parent / "scripts")
        done = subprocess.run([*self.inside, "python3", "-c", code, scripts], input=json.dumps(question),
                              capture_output=True, text=True, timeout=seconds + 10, check=True)
        status, found, text = json.loads(done.stdout)
        return status, found, text.encode()


class Namespaces(SystemTest):
    def setUp(self):
        self.hosts = Hosts(3)
        self.addCleanup(self.hosts.remove)  # after the processes inside are gone: cleanups run last first
        try:
            self.hosts.make()
        except (OSError, RuntimeError) as error:
            self.skipTest(f"network namespaces need root with CAP_NET_ADMIN and CAP_SYS_ADMIN ({error})")
        super().setUp()

    def test_one_head_and_two_node_hosts(self):
        hosts, cluster = self.hosts, self.cluster
        head = hosts.address(0)
        cluster.start_head("--insecure", listen=f"{head}:6380", http="127.0.0.1:8265", prefix=hosts.inside(0))
        cluster.api = ApiInside(cluster.api.address, cluster.api.token, hosts.inside(0))
        for i, name in ((1, "one"), (2, "two")):
            cluster.start_node(name, 1, head=f"{head}:6380", prefix=hosts.inside(i))
        cluster.await_nodes("one", "two")
        api = cluster.api
        before = [hosts.bytes_from(i) for i in range(3)]
        ended = api.wait_ended(api.submit(job(workers=2, steps=20))["id"])
        self.assertEqual(ended["state"], "SUCCEEDED", ended["reason"])
        self.assertEqual({w["node"] for w in ended["workers"]}, {"one", "two"})
        crossed = [hosts.bytes_from(i) - before[i] for i in range(3)]
        for worker in ended["workers"]:
            host = {"one": 1, "two": 2}[worker["node"]]
            self.assertGreaterEqual(crossed[host], worker["bytes_sent"], "the gradients crossed the bridge")
        self.assertLess(crossed[0], min(crossed[1:]) / 2, "and did not go through the head")


if __name__ == "__main__":
    unittest.main()
