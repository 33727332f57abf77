"""The commands that the documentation names, against a real cluster: what they print, and what scripts get."""

import csv
import io
import json
import socket
import sqlite3
import unittest

from cluster import LONG, PATIENCE, SystemTest, job
from weir_api import poll


class Commands(SystemTest):
    def weir(self, *arguments, code: int = 0) -> str:
        """Standard output of a command of this cluster's machine."""
        done = self.cluster.run("--data-dir", self.cluster.data_dir, *arguments)
        self.assertEqual(done.returncode, code, f"{arguments}: {done.stdout}\n{done.stderr}")
        return done.stdout

    def json(self, *arguments, code: int = 0):
        return json.loads(self.weir("--json", *arguments, code=code))

    def submit(self, *arguments, **changes) -> str:
        spec = self.cluster.folder / "spec.json"
        spec.write_text(json.dumps(job(**changes)))
        return self.weir("submit", spec, *arguments).strip()

    def recorded(self, job_id: str) -> dict[tuple[str, str], list[tuple]]:
        """What the store holds of a job, by name and worker: (step, wall, bytes, value) in order of arrival."""
        store = sqlite3.connect(f"file:{self.cluster.data_dir / 'weir.db'}?mode=ro", uri=True)
        try:
            rows = store.execute("SELECT name, worker, step, wall, bytes, value FROM metrics JOIN series ON id = series"
                                 " WHERE job = ? ORDER BY name, worker, position", (job_id,)).fetchall()
        finally:
            store.close()
        found: dict[tuple[str, str], list[tuple]] = {}
        for name, worker, *row in rows:
            found.setdefault((name, "" if worker < 0 else str(worker)), []).append(tuple(row))
        return found

    def test_metrics_gives_every_recorded_point(self):
        self.cluster.start({"alpha": 1})
        # A point for each of the first 1,024 steps, then 512 each time that the number of steps doubles.
        spec = job(workers=1, steps=4200)
        spec["training"]["batch_size"] = 1
        # One example at a time at 0.01 diverges, sooner or later, as the processor rounds.
        spec["training"]["optimizer"] = {"lr": 0.0001}
        job_id = self.cluster.api.submit(spec)["id"]
        ended = self.cluster.api.wait_ended(job_id, 1200)
        self.assertEqual(ended["state"], "SUCCEEDED", ended["reason"])
        recorded = self.recorded(job_id)
        self.assertGreater(len(recorded[("loss", "0")]), 2000)

        for axis, place in (("step", 0), ("wall", 1), ("bytes", 2)):
            with self.subTest(axis=axis):
                printed: dict[tuple[str, str], list[tuple[float, float]]] = {}
                for row in csv.DictReader(io.StringIO(self.weir("job", "metrics", job_id, "--csv", "--x", axis))):
                    self.assertEqual((row["job"], row["min"], row["max"]), (job_id, row["last"], row["last"]))
                    printed.setdefault((row["name"], row["worker"]), []).append((float(row["x"]), float(row["last"])))
                self.assertEqual(printed, {key: [(float(row[place]), row[3]) for row in rows]
                                           for key, rows in recorded.items()})

        answer = self.json("job", "metrics", job_id, "--points", "all", "--name", "loss")
        self.assertEqual((answer["job"], answer["x"]), (job_id, "step"))
        found = {(s["name"], "" if s["worker"] is None else str(s["worker"])): s["points"] for s in answer["series"]}
        self.assertEqual(found, {key: [[r[0], r[3], r[3], r[3]] for r in rows]
                                 for key, rows in recorded.items() if key[0] == "loss"})
        # The link of the dashboard, as a browser asks.
        status, headers, body = self.cluster.api.request("GET", f"/api/v1/jobs/{job_id}/metrics?format=csv&points=all")
        self.assertEqual((status, headers["transfer-encoding"]), (200, "chunked"))
        self.assertEqual(body.decode().count("\r\n"), 1 + sum(map(len, recorded.values())))
        # Down-sampled, the same extremes.
        sampled = self.json("job", "metrics", job_id, "--points", 100, "--name", "loss")["series"]
        for series in sampled:
            values = [row[3] for row in recorded[("loss", "" if series["worker"] is None else str(series["worker"]))]]
            self.assertLessEqual(len(series["points"]), 100)
            self.assertEqual(min(p[1] for p in series["points"]), min(values))
            self.assertEqual(max(p[2] for p in series["points"]), max(values))

    def test_a_job_from_submit_to_delete(self):
        self.cluster.start_head()
        self.cluster.start_node("alpha", 2, "--labels", "zone=a,disk=ssd")
        self.cluster.await_nodes("alpha")
        api = self.cluster.api
        self.assertEqual(self.json("node", "show", "alpha")["labels"], {"zone": "a", "disk": "ssd"})

        # The same request twice is one job; another spec by the same key is refused.
        first = self.submit("--idempotency-key", "k1", workers=2, steps=LONG)
        self.assertEqual(self.submit("--idempotency-key", "k1", workers=2, steps=LONG), first)
        self.assertEqual([j["id"] for j in self.json("job", "list")["jobs"]], [first])
        self.weir("submit", "--idempotency-key", "k1", self.cluster.folder / "spec.json", "--set", "name=other", code=2)
        self.assertEqual(len(self.json("job", "list")["jobs"]), 1)

        api.wait_step(first, 3)
        self.assertEqual(self.json("job", "delete", first, code=1)["error"]["exit_code"], 1)
        self.assertEqual(self.json("job", "stop", first)["id"], first)
        ended = api.wait_ended(first)
        self.assertEqual(ended["state"], "STOPPED", ended["reason"])

        events = self.json("job", "events", first)["events"]
        self.assertEqual(events, api.get(f"/api/v1/jobs/{first}/events?limit=1000")["events"])
        self.assertIn("worker.started", [e["kind"] for e in events])
        self.assertIn("worker.started", self.weir("job", "events", first))

        logs = [json.loads(line) for line in self.weir("--json", "job", "logs", first).splitlines()]
        for rank in (0, 1):
            text = "".join(piece["text"] for piece in logs if piece["worker"] == rank)
            self.assertEqual(text, api.get(f"/api/v1/jobs/{first}/logs?worker={rank}&limit=1000000")["text"])
            self.assertTrue(text, f"rank {rank} printed nothing")

        kept = self.json("job", "checkpoints", first)["checkpoints"]
        self.assertEqual([c["step"] for c in kept], [ended["step"]], "a stop leaves one at its step")
        file = self.cluster.folder / "model.safetensors"
        told = self.json("job", "checkpoint", first, "latest", "-o", file)
        self.assertEqual((told["step"], told["bytes"]), (ended["step"], file.stat().st_size))
        status, _, body = api.request("GET", f"/api/v1/jobs/{first}/checkpoints/{ended['step']}")
        self.assertEqual((status, file.read_bytes() == body), (200, True))
        self.weir("job", "checkpoint", first, ended["step"], "-o", file, code=1)
        self.weir("job", "checkpoint", first, ended["step"], "-o", file, "--force")

        self.assertEqual(self.json("job", "delete", first), {"deleted": first})
        self.assertEqual(self.json("job", "show", first, code=3)["error"]["kind"], "not_found")
        store = sqlite3.connect(f"file:{self.cluster.data_dir / 'weir.db'}?mode=ro", uri=True)
        kept = store.execute("SELECT data FROM stream WHERE job = ?", (first,)).fetchall()
        self.assertEqual([json.loads(data) for data, in kept], [{"id": first}], "that it was removed, and nothing else")
        store.close()

    def test_nodes_token_and_doctor(self):
        self.cluster.start({"alpha": 1, "beta": 1})
        api = self.cluster.api
        self.assertEqual(self.json("node", "drain", "alpha")["state"], "draining")
        placed = api.wait_ended(self.submit(workers=1, steps=2))
        self.assertEqual([w["node"] for w in placed["workers"]], ["beta"])
        waiting = self.submit(workers=2, steps=2)
        api.wait_job(waiting, lambda j: "alpha" in (j["reason"] or ""), PATIENCE,
                     "a job that waits, as alpha takes no more")

        self.assertEqual(self.weir("token", "show").strip(), api.token)
        link = self.json("token", "link")["url"]
        status, headers, _ = api.request("GET", link[link.index("/login"):], headers={"Authorization": ""})
        self.assertEqual((status, headers["location"]), (303, "/"))
        self.assertIn("set-cookie", headers)

        found = {check["what"]: check for check in self.json("doctor")["checks"]}
        self.assertEqual(found["head"]["level"], "ok")
        self.assertIn(api.address, found["head"]["found"])
        self.assertEqual(found["token"], {"level": "ok", "what": "token", "advice": "",
                                          "found": str(self.cluster.data_dir / "token")})

        self.assertIn("stop its agent first", self.json("node", "forget", "alpha", code=1)["error"]["message"])
        self.assertEqual(self.cluster.node_processes.pop("alpha").stop(), 0)
        poll(lambda: api.nodes()["alpha"]["state"] == "lost", PATIENCE, "a node that is stopped is not lost")
        self.assertEqual(self.json("node", "forget", "alpha"), {"forgotten": "alpha"})
        self.assertNotIn("alpha", api.nodes())
        self.cluster.start_node("alpha", 1)
        ended = api.wait_ended(waiting)
        self.assertEqual(ended["state"], "SUCCEEDED", "the new node of that name takes work")

    def test_what_needs_no_head(self):
        nowhere = ("--data-dir", self.cluster.folder / "none")
        catalog = json.loads(self.cluster.run(*nowhere, "--json", "catalog").stdout)
        self.assertIn("lenet", [m["name"] for m in catalog["models"]])
        self.assertIn("lenet", self.cluster.run(*nowhere, "catalog", "models").stdout)
        none = self.cluster.run(*nowhere, "--json", "job", "list", WEIR_ADDRESS="127.0.0.1:1")
        self.assertEqual((none.returncode, json.loads(none.stdout)["error"]["kind"]), (5, "unreachable"))
        self.assertNotIn("call", self.cluster.run("actor", "--help").stdout)
        self.assertEqual(self.cluster.run("actor", "kill", "x").returncode, 2)

    def test_a_head_elsewhere_is_not_sent_this_machines_token(self):
        self.cluster.start_head()
        address, token = self.cluster.api.address, self.cluster.api.token
        self.weir("--address", address, "job", "list")  # the head of this data directory, named
        with socket.create_server(("127.0.0.1", 0)) as listener:
            other = f"127.0.0.1:{listener.getsockname()[1]}"

            def asked_with(*arguments) -> str:
                """The request that a command makes to the head at `other`, which refuses it."""
                command = self.cluster.weir("--data-dir", self.cluster.data_dir, "--address", other, *arguments, "job",
                                            "list", name="other")
                with listener.accept()[0] as peer:
                    request = peer.recv(65536).decode()
                    peer.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\n{}")
                    self.assertEqual(command.popen.wait(PATIENCE), 4)
                return request

            listener.settimeout(PATIENCE)
            self.assertNotIn("Authorization", asked_with())
            self.assertIn(f"Authorization: Bearer {token}\r\n", asked_with("--token", token))
            self.assertIn("only to the head that wrote it", (self.cluster.folder / "other.log").read_text())


if __name__ == "__main__":
    unittest.main()
