"""How scripts start a cluster: they reach the head that they started, and leave another's folder as it is."""

import json
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import local_cluster  # noqa: E402  (needs the path above)

REFUSING = """
print("the folder is in use", flush=True)
sys.exit(1)
"""
# A head with one node in a process of its own, as `weir up` has it.
STARTING = """
head = 0
signal.signal(signal.SIGTERM, lambda *_: os.kill(head, signal.SIGKILL))
head = os.fork()
if head:
    os.waitpid(head, 0)
    sys.exit(0)


class Head(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'{"nodes": [{"name": "n1", "state": "alive"}]}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Head)
(data_dir / "token").write_text("secret")
endpoints = {"http": f"http://127.0.0.1:{server.server_port}/", "pid": os.getpid()}
(data_dir / "new").write_text(json.dumps(endpoints))
(data_dir / "new").rename(data_dir / "endpoints.json")
server.serve_forever()
"""


class Start(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.data_dir = self.folder / "data"
        self.data_dir.mkdir()
        # Of a head that is nobody's child here.
        self.endpoints = json.dumps({"http": "http://127.0.0.1:1/", "pid": os.getpid()})
        (self.data_dir / "endpoints.json").write_text(self.endpoints)
        (self.data_dir / "up.log").write_text("from before\n")

    def cluster(self, script: str) -> local_cluster.Cluster:
        """One whose `weir` is a script."""
        weir = self.folder / "weir"
        weir.write_text(f"#!{sys.executable}\nimport http.server, json, os, pathlib, signal, sys\n"
                        f"data_dir = pathlib.Path(sys.argv[sys.argv.index('--data-dir') + 1])\n{script}")
        weir.chmod(0o755)
        self.enterContext(mock.patch.object(local_cluster, "WEIR", weir))
        return local_cluster.Cluster(self.data_dir, nodes=1)

    def test_in_a_folder_that_is_in_use_leaves_its_files(self):
        with self.assertRaises(local_cluster.Broken) as caught, self.cluster(REFUSING):
            self.fail("it has not started")
        self.assertIn("the folder is in use", str(caught.exception))
        self.assertNotIn("from before", str(caught.exception))
        self.assertEqual((self.data_dir / "endpoints.json").read_text(), self.endpoints)
        self.assertEqual((self.data_dir / "up.log").read_text(), "from before\nthe folder is in use\n")

    def test_reaches_its_own_head_and_no_earlier_one(self):
        with self.cluster(STARTING) as cluster:
            found = json.loads((self.data_dir / "endpoints.json").read_text())
            self.assertEqual(f"http://{cluster.api.address}/", found["http"])
            self.assertEqual(local_cluster.parent(found["pid"]), cluster.process.pid)
        self.assertIsNotNone(cluster.process.poll())


if __name__ == "__main__":
    unittest.main()
