"""Training modes with the real processes."""

import os
import signal
import unittest

from cluster import LONG, PATIENCE, SystemTest, job
from test_jobs import tensors
from weir_api import poll


def local(compressor: str = "none", steps: int = 20, period: int = 4, **changes) -> dict:
    spec = job(workers=2, steps=steps, compressor=compressor, **changes)
    spec["training"] |= {"mode": "local_sgd", "params": {"period": period}}
    return spec


class LocalSgd(SystemTest):
    def run_job(self, spec: dict) -> dict:
        ended = self.cluster.api.wait_ended(self.cluster.api.submit(spec)["id"])
        self.assertEqual(ended["state"], "SUCCEEDED", ended["reason"])
        self.assertEqual(ended["step"], spec["training"]["max_steps"])
        return ended

    def test_over_every_topology(self):
        self.cluster.start({"alpha": 2, "beta": 2})
        api = self.cluster.api
        refused = {("split_gather", "qsgd")}
        for topology in ("ring", "two_hop", "parameter_server", "split_gather", "hierarchical", "auto"):
            for compressor in ("topk", "qsgd", "none"):
                with self.subTest(topology=topology, compressor=compressor):
                    spec = local(compressor, exchange={"topology": topology})
                    if (topology, compressor) in refused:
                        status, _, _ = api.request("POST", "/api/v1/jobs/validate", spec)
                        self.assertEqual(status, 422)
                        continue
                    checked = api.call("POST", "/api/v1/jobs/validate", spec)
                    memory = {"topk": "residual"}.get(compressor, "none")
                    self.assertEqual(checked["spec"]["compression"]["memory"], memory)
                    ended = self.run_job(spec)
                    summary = ended["summary"]
                    self.assertGreater(summary["bytes_sent"], 0)
                    if compressor == "none" and topology == "ring":  # a fourth of what every step would send
                        self.assertLess(summary["bytes_sent"], 1.05 * summary["bytes_dense"] / 4)
                        self.assertGreater(summary["bytes_sent"], 0.95 * summary["bytes_dense"] / 4)

    def test_what_the_workers_would_refuse_is_refused_at_once(self):
        self.cluster.start({"alpha": 2})
        for compression, pointer in (({"name": "signsgd"}, "/compression/name"),
                                     ({"name": "dgc", "memory": "dgc"}, "/compression/memory")):
            spec = local() | {"compression": compression}
            status, _, body = self.cluster.api.request("POST", "/api/v1/jobs", spec)
            self.assertEqual(status, 422, body)
            self.assertIn(f'"{pointer}"'.encode(), body)
            self.assertIn(b"differences between their models", body)

    def test_stopped_and_resumed_equals_uninterrupted(self):
        self.cluster.start({"alpha": 2})
        api = self.cluster.api
        # A warm-up whose length is that of the training would be another one in each of these jobs.
        spec = local("dgc", steps=LONG, period=7,
                     compression={"name": "dgc", "params": {"warmup_epochs": 0.02}})

        def final_tensors(job_id: str, step: int) -> dict[str, bytes]:
            status, _, body = api.request("GET", f"/api/v1/jobs/{job_id}/checkpoints/{step}")
            self.assertEqual(status, 200)
            return tensors(body)

        interrupted = api.submit(spec)["id"]
        api.wait_step(interrupted, 5)
        api.call("POST", f"/api/v1/jobs/{interrupted}/stop")
        stopped = api.wait_ended(interrupted)
        self.assertEqual(stopped["state"], "STOPPED", stopped["reason"])
        self.assertEqual(stopped["step"] % 7, 0, "it stops when the workers exchange")
        steps = spec["training"]["max_steps"] = stopped["step"] + 60
        whole = self.run_job(spec)
        spec["checkpoint"] = {"resume_from": {"job": interrupted, "step": stopped["step"]}}
        expected, found = final_tensors(whole["id"], steps), final_tensors(self.run_job(spec)["id"], steps)
        self.assertEqual(expected.keys(), found.keys())
        self.assertEqual([name for name in expected if expected[name] != found[name]], [])

    def test_killed_worker_goes_on_from_the_newest(self):
        self.cluster.start({"alpha": 2})
        api = self.cluster.api
        steps = LONG
        spec = local("topk", steps=steps, period=8, checkpoint={"every_steps": 20, "keep": 100},
                     fault_tolerance={"max_restarts": 1})
        job_id = api.submit(spec)["id"]
        path = f"/api/v1/jobs/{job_id}/checkpoints"
        poll(lambda: api.get(path)["checkpoints"], PATIENCE, "a checkpoint")
        victim = next(w for w in api.job(job_id)["workers"] if w["rank"] == 1)
        os.kill(victim["pid"], signal.SIGKILL)
        again = self.cluster.await_attempt(job_id, 1)
        api.wait_step(job_id, again["step"] + 50)
        api.call("POST", f"/api/v1/jobs/{job_id}/stop")
        ended = api.wait_ended(job_id)
        self.assertEqual((ended["state"], ended["restarts"]), ("STOPPED", 1), ended["reason"])
        events = api.get(f"/api/v1/jobs/{job_id}/events?limit=1000")["events"]
        restart = next(e["message"] for e in events if e["kind"] == "job.restart")
        self.assertRegex(restart, r"from the checkpoint at step \d+: worker 1 on node alpha .* signal 9")
        step = int(restart.split("from the checkpoint at step ")[1].split(":")[0])
        self.assertEqual(step % 8, 0, "when the workers exchange, after every 20 steps")
        again = [point[2] for _, kind, data in api.stream(f"job:{job_id}", after=0)
                 if kind == "metrics" and data["restarts"] == 1 for point in data["points"]
                 if point[:2] == ["loss", 0]]
        self.assertEqual(again[0], step + 1, "the first step after the checkpoint")


class Local(SystemTest):
    def test_one_worker_trains_by_itself(self):
        self.cluster.start({"alpha": 2})
        api = self.cluster.api
        spec = job(workers=1, steps=20)
        spec["training"]["mode"] = "local"
        ended = api.wait_ended(api.submit(spec)["id"])
        self.assertEqual((ended["state"], ended["step"]), ("SUCCEEDED", 20), ended["reason"])
        self.assertEqual(ended["summary"]["bytes_sent"], 0)
        self.assertGreater(ended["summary"]["accuracy"], 0)
        spec["resources"]["workers"] = 2
        status, _, body = api.request("POST", "/api/v1/jobs", spec)
        self.assertEqual(status, 422, body)
        self.assertIn(b'"/resources/workers"', body)
        self.assertIn(b"trains on one worker", body)


class Models(SystemTest):
    def test_are_exchanged_after_every_step(self):
        self.cluster.start({"alpha": 2})
        api = self.cluster.api
        for compression in ({"name": "none", "aggregation": "weighted"}, {"name": "dgc"}, {"name": "qsgd"}):
            with self.subTest(compression=compression):
                spec = job(workers=2, steps=20)
                spec["compression"] = compression | {"apply_to": "models"}
                ended = api.wait_ended(api.submit(spec)["id"])
                self.assertEqual((ended["state"], ended["step"]), ("SUCCEEDED", 20), ended["reason"])
                self.assertEqual([point[-1] for point in api.series(ended["id"], "local_steps", 0)], [1] * 20)


class Conditions(SystemTest):
    def test_slow_workers_and_lines(self):
        self.cluster.start({"alpha": 2})
        api = self.cluster.api
        spec = job(workers=2, steps=8)
        spec["training"]["params"] = {"slowdown": [1, 50]}
        ended = api.wait_ended(api.submit(spec)["id"])
        self.assertEqual((ended["state"], ended["step"]), ("SUCCEEDED", 8), ended["reason"])
        # The least that a step took: in others the machine may not have run the worker for a while.
        fast, slow = (min(point[-1] for point in api.series(ended["id"], "compute_seconds", rank)) for rank in (0, 1))
        self.assertGreater(slow, 2 * fast)
        spec["training"]["max_steps"] = 4
        # 1.7 MB in each direction and step, at 5 MB/s: a third of a second, on any machine, or less if they are packed.
        spec["training"]["params"] = {"link_rate": ["none", "40mbit"]}
        ended = api.wait_ended(api.submit(spec)["id"])
        self.assertEqual((ended["state"], ended["step"]), ("SUCCEEDED", 4), ended["reason"])
        for rank in (0, 1):
            steps = api.series(ended["id"], "step_seconds", rank)
            self.assertEqual(len(steps), 4)
            for point in steps:
                self.assertGreater(point[-1], 0.2)
        spec["training"]["params"] = {"slowdown": [0.5], "link_rate": ["none", "fast"]}
        status, _, body = api.request("POST", "/api/v1/jobs", spec)
        self.assertEqual(status, 422, body)
        self.assertIn(b'"/training/params/slowdown/0"', body)
        self.assertIn(b'"/training/params/link_rate/1"', body)


if __name__ == "__main__":
    unittest.main()
