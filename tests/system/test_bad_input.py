"""Bad and hostile input while a job runs: each gets a clear answer, and the job never notices."""

import contextlib
import gzip
import http.client
import json
import os
import random
import socket
import struct
import unittest
from pathlib import Path

from cluster import LONG, PATIENCE, SystemTest, job

DATASET = Path("/usr/share/datasets/fashion-mnist")


def throw(host: str, port: int, data: bytes) -> None:
    """Sends bytes to a port and waits until the other side has hung up or read them all and said nothing."""
    with socket.create_connection((host, port), PATIENCE) as peer:
        try:
            peer.sendall(data)
            peer.shutdown(socket.SHUT_WR)
            while peer.recv(65536):
                pass
        except (ConnectionError, BrokenPipeError):
            pass  # hanging up in the middle of garbage is a fine answer


def garbage() -> list[bytes]:
    random_bytes = random.Random(1)
    return [
        b"",
        b"\0" * 4096,
        b"\xff" * 4096,
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        struct.pack("<Q", 2**63) + b"x" * 64,
        struct.pack(">I", 0xFFFFFFFF) + b"x" * 64,
        *(random_bytes.randbytes(random_bytes.randrange(1, 5000)) for _ in range(20)),
    ]


def listening_ports(pid: int) -> list[int]:
    """TCP ports this process listens on, from /proc."""
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            target = os.readlink(descriptor)
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    ports = []
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and fields[9] in inodes:
            ports.append(int(fields[1].split(":")[1], 16))
    return ports


class BadInput(SystemTest):
    def setUp(self):
        super().setUp()
        self.cluster.start({"alpha": 3})
        self.api = self.cluster.api
        self.bystander = self.api.submit(job(workers=2, steps=LONG))["id"]
        self.api.wait_step(self.bystander, 1)

    def bystander_goes_on(self):
        step = self.api.job(self.bystander)["step"]
        self.api.wait_step(self.bystander, step + 5)

    def refused(self, spec: dict, pointer: str) -> dict:
        status, headers, body = self.api.request("POST", "/api/v1/jobs", spec)
        self.assertEqual(status, 422, body)
        self.assertEqual(headers["content-type"].split(";")[0], "application/problem+json")
        problem = json.loads(body)
        errors = {e["pointer"]: e for e in problem["errors"]}
        self.assertIn(pointer, errors)
        return errors[pointer]

    def test_specs(self):
        error = self.refused(job(model={"name": "lenett"}), "/model/name")
        self.assertIn("lenet", error["detail"] + error.get("suggestion", ""))
        error = self.refused(job(colour="red"), "/colour")
        self.refused(job(resources={"workers": "four"}), "/resources/workers")
        self.refused(job(resources={"workers": 0}), "/resources/workers")
        self.refused(job(compression={"name": "dgc", "params": {"ratio": 2}}), "/compression/params/ratio")
        self.refused({"dataset": {"name": "fashion-mnist"}}, "/model")
        self.bystander_goes_on()

    def announce(self, body_bytes: int) -> int:
        """The status that a body of this size gets before a byte of it is sent."""
        connection = http.client.HTTPConnection(self.api.address, timeout=PATIENCE)
        self.addCleanup(connection.close)
        connection.putrequest("POST", "/api/v1/jobs")
        connection.putheader("Authorization", f"Bearer {self.api.token}")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(body_bytes))
        connection.endheaders()
        return connection.getresponse().status

    def test_http(self):
        ask = self.api.request
        self.assertEqual(ask("POST", "/api/v1/jobs", b"{not json")[0], 400)
        self.assertEqual(ask("POST", "/api/v1/jobs", b"[" * 100000)[0], 400)
        self.assertEqual(self.announce(8 << 20), 413)
        self.assertEqual(ask("POST", "/api/v1/jobs", b"a=b", {"Content-Type": "text/plain"})[0], 415)
        status, headers, _ = ask("PUT", "/api/v1/jobs", {})
        self.assertEqual(status, 405)
        self.assertIn("POST", headers["allow"])
        self.assertEqual(ask("GET", "/api/v1/jobs/no-such-job")[0], 404)
        self.assertEqual(ask("GET", "/api/v1/jobs", headers={"Authorization": "Bearer wrong"})[0], 401)
        self.assertIn(ask("GET", "/api/v1/jobs", headers={"Host": "evil.example"})[0], (403, 421))
        self.assertEqual(ask("POST", "/api/v1/jobs", job(), {"Origin": "http://evil.example"})[0], 403)
        self.assertEqual(ask("GET", "/", headers={"X-Long": "x" * 100000})[0], 431)
        for path in ("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/assets/..%2f..%2ftoken", "/%252e%252e/token"):
            status, _, body = ask("GET", path)
            self.assertNotIn(b"root:", body)
            self.assertNotIn((self.api.token or "").encode(), body)
        self.bystander_goes_on()

    def test_garbage_on_the_ports(self):
        host, port = self.cluster.control.rsplit(":", 1)
        self.assertIn(int(port), listening_ports(self.cluster.head.pid))
        workers = [w["pid"] for w in self.api.job(self.bystander)["workers"]]
        self.assertEqual([p for pid in workers for p in listening_ports(pid)], [], "closed once the group stands")
        http_host, http_port = self.api.address.rsplit(":", 1)
        for data in garbage():
            throw(host, int(port), data)
            throw(http_host, int(http_port), data)
        self.bystander_goes_on()
        self.assertTrue(self.cluster.head.alive())
        self.assertTrue(self.cluster.node_processes["alpha"].alive())

    def test_dataset_that_is_missing_or_cut_short(self):
        missing = self.api.submit(job(workers=1, dataset={"name": "fashion-mnist", "path": "/no/such/folder"}))["id"]
        ended = self.api.wait_ended(missing)
        self.assertEqual(ended["state"], "FAILED")
        self.assertIn("/no/such/folder", ended["reason"])
        self.assertIn("dataset-fashion-mnist", ended["reason"], "it says how to get the files")

        cut = self.cluster.folder / "cut"
        cut.mkdir()
        for file in DATASET.glob("*.gz"):
            (cut / file.name).write_bytes(file.read_bytes())
        images = cut / "train-images-idx3-ubyte.gz"
        images.write_bytes(gzip.compress(gzip.decompress(images.read_bytes())[:1_000_000], 1))
        short = self.api.submit(job(workers=1, dataset={"name": "fashion-mnist", "path": str(cut)}))["id"]
        ended = self.api.wait_ended(short)
        self.assertEqual(ended["state"], "FAILED")
        self.assertIn("train-images-idx3-ubyte", ended["reason"])
        self.bystander_goes_on()

    def test_impossible_resources_wait_with_a_reason(self):
        too_many = {"workers": 64}
        no_such_device = {"workers": 1, "per_worker": {"cpu": 1, "gpu": 4}}
        for resources, lacking in ((too_many, "cpu"), (no_such_device, "gpu")):
            job_id = self.api.submit(job(resources=resources))["id"]
            waiting = self.api.wait_job(job_id, lambda j: j["reason"], PATIENCE, "a reason")
            self.assertEqual(waiting["state"], "PENDING")
            self.assertIn("alpha", waiting["reason"])
            self.assertIn(lacking, waiting["reason"])
            self.api.call("POST", f"/api/v1/jobs/{job_id}/stop")
            self.assertEqual(self.api.wait_ended(job_id)["state"], "STOPPED")
        self.bystander_goes_on()


if __name__ == "__main__":
    unittest.main()
