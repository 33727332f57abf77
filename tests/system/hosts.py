"""Several hosts on one machine: network namespaces joined by a bridge. Needs CAP_NET_ADMIN and CAP_SYS_ADMIN."""

import contextlib
import json
import os
import shutil
import subprocess
from pathlib import Path

from weir_api import Api


def ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


class Hosts:
    """Namespaces h0, h1, ... with addresses 10.77.0.1, 10.77.0.2, ... on a bridge that has a namespace of its own.

    They know no names at first, and ask no resolver."""

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
            self.files(i).mkdir(parents=True)
            (self.files(i) / "hosts").write_text("127.0.0.1 localhost\n")
            (self.files(i) / "resolv.conf").write_text("nameserver 127.0.0.1\n")  # refuses at once: nothing listens
            ip("link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", f"port{i}", "netns", self.switch)
            ip("-n", name, "address", "add", f"{self.address(i)}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", self.switch, "link", "set", f"port{i}", "master", "bridge", "up")

    def address(self, i: int) -> str:
        return f"10.77.0.{i + 1}"

    def files(self, i: int) -> Path:
        """What `ip netns exec` mounts over /etc for host i."""
        return Path("/etc/netns") / self.names[i]

    def tell(self, i: int, name: str, address: str) -> None:
        """Host i knows that name from now on."""
        with (self.files(i) / "hosts").open("a") as hosts:
            hosts.write(f"{address} {name}\n")

    def inside(self, i: int) -> list[str]:
        return ["ip", "netns", "exec", self.names[i]]

    def bytes_from(self, i: int) -> int:
        """Bytes that host i has sent into the bridge."""
        command = [*self.inside(i), "cat", "/sys/class/net/eth0/statistics/tx_bytes"]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    def remove(self) -> None:
        for name in self.made:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)
        for i in range(len(self.names)):
            shutil.rmtree(self.files(i), ignore_errors=True)
        with contextlib.suppress(OSError):
            Path("/etc/netns").rmdir()  # unless somebody else has something there


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
