"""The training modes without one optimizer for all: each with the real processes, compressed and not."""

import os
import signal
import unittest

from cluster import LONG, PATIENCE, SystemTest, job
from test_jobs import tensors
from weir_api import poll


def gossip(compressor: str = "none", steps: int = 150, params: dict | None = None, **changes) -> dict:
    spec = job(workers=4, steps=steps, compressor=compressor, **changes)
    spec["training"] |= {"mode": "gossip", "params": params or {}}
    return spec


def diloco(compressor: str = "none", steps: int = 120, params: dict | None = None, **changes) -> dict:
    spec = job(workers=2, steps=steps, compressor=compressor, **changes)
    spec["training"] |= {"mode": "diloco", "params": params or {},
                         "optimizer": {"name": "adamw", "lr": 0.002}}
    return spec


class ModeTest(SystemTest):
    def run_job(self, spec: dict) -> dict:
        ended = self.cluster.api.wait_ended(self.cluster.api.submit(spec)["id"])
        self.assertEqual(ended["state"], "SUCCEEDED", ended["reason"])
        self.assertEqual(ended["step"], spec["training"]["max_steps"])
        return ended

    def points(self, job_id: str, name: str) -> list:
        return [point for _, kind, data in self.cluster.api.stream(f"job:{job_id}", after=0)
                if kind == "metrics" for point in data["points"] if point[0] == name]

    def final_tensors(self, job_id: str, step: int) -> dict[str, bytes]:
        status, _, body = self.cluster.api.request("GET", f"/api/v1/jobs/{job_id}/checkpoints/{step}")
        self.assertEqual(status, 200)
        return tensors(body)

    def check_stopped_and_resumed_equals_uninterrupted(self, spec: dict):
        """`spec`: of LONG; what is done in a step does not depend on how many follow."""
        api = self.cluster.api
        interrupted = api.submit(spec)["id"]
        api.wait_step(interrupted, 5)
        api.call("POST", f"/api/v1/jobs/{interrupted}/stop")
        stopped = api.wait_ended(interrupted)
        self.assertEqual(stopped["state"], "STOPPED", stopped["reason"])
        steps = spec["training"]["max_steps"] = stopped["step"] + 60
        whole = self.run_job(spec)
        spec["checkpoint"] = {"resume_from": {"job": interrupted, "step": stopped["step"]}}
        expected = self.final_tensors(whole["id"], steps)
        found = self.final_tensors(self.run_job(spec)["id"], steps)
        self.assertEqual(expected.keys(), found.keys())
        self.assertEqual([name for name in expected if expected[name] != found[name]], [])

    def check_killed_worker_goes_on_from_the_newest(self, spec: dict):
        api = self.cluster.api
        spec |= {"checkpoint": {"every_steps": 20, "keep": 100}, "fault_tolerance": {"max_restarts": 1}}
        job_id = api.submit(spec)["id"]
        poll(lambda: api.get(f"/api/v1/jobs/{job_id}/checkpoints")["checkpoints"], PATIENCE, "a checkpoint")
        victim = next(w for w in api.job(job_id)["workers"] if w["rank"] == 1)
        os.kill(victim["pid"], signal.SIGKILL)
        again = self.cluster.await_attempt(job_id, 1)
        api.wait_step(job_id, again["step"] + 50)
        api.call("POST", f"/api/v1/jobs/{job_id}/stop")
        ended = api.wait_ended(job_id)
        self.assertEqual((ended["state"], ended["restarts"]), ("STOPPED", 1), ended["reason"])
        events = api.get(f"/api/v1/jobs/{job_id}/events?limit=1000")["events"]
        restart = next(e["message"] for e in events if e["kind"] == "job.restart")
        self.assertRegex(restart, r"from the checkpoint at step \d+: worker 1 on node .* signal 9")


class Gossip(ModeTest):
    def test_learns_over_a_graph(self):
        self.cluster.start({"alpha": 2, "beta": 2})

        def accuracy_of(spec: dict) -> float:
            # Each worker sees a part of the classes only: alone it learns no others.
            spec["dataset"]["partition"] = "by_class"
            ended = self.run_job(spec)
            distances = self.points(ended["id"], "consensus_distance")
            self.assertTrue(distances)
            return ended["summary"]["accuracy"]

        for compression in ({"name": "none"}, {"name": "topk", "params": {"ratio": 0.1}}, {"name": "qsgd"}):
            for graph in ("ring", "torus"):
                with self.subTest(compression=compression["name"], graph=graph):
                    spec = gossip(params={"graph": graph}) | {"compression": compression}
                    checked = self.cluster.api.call("POST", "/api/v1/jobs/validate", spec)
                    self.assertEqual(checked["spec"]["compression"]["memory"], "none")
                    accuracy = accuracy_of(spec)
                    self.assertGreater(accuracy, 0.5)
        alone = accuracy_of(gossip(params={"consensus_step": 1e-6}))
        self.assertLess(alone, 0.4, "workers that do not mix their models must not pass")

    def test_what_the_workers_would_refuse_is_refused_at_once(self):
        self.cluster.start({"alpha": 2})
        for spec, pointer in ((gossip("powersgd"), "/compression/name"),
                              (gossip("topk") | {"compression": {"name": "topk", "memory": "residual"}},
                               "/compression/memory"),
                              (gossip(exchange={"topology": "tree"}), "/exchange/topology"),
                              (gossip(params={"graph": "random_regular", "degree": 4}), "/training/params/degree")):
            status, _, body = self.cluster.api.request("POST", "/api/v1/jobs", spec)
            self.assertEqual(status, 422, body)
            self.assertIn(f'"{pointer}"'.encode(), body)

    def test_stopped_and_resumed_equals_uninterrupted(self):
        self.cluster.start({"alpha": 2, "beta": 2})
        self.check_stopped_and_resumed_equals_uninterrupted(gossip("topk", steps=LONG))

    def test_killed_worker_goes_on_from_the_newest(self):
        self.cluster.start({"alpha": 2, "beta": 2})
        self.check_killed_worker_goes_on_from_the_newest(gossip("topk", steps=LONG))


class DiLoCo(ModeTest):
    def test_learns(self):
        self.cluster.start({"alpha": 2})
        sparse = {"name": "topk", "params": {"ratio": 0.1}, "memory": "residual", "memory_params": {"beta": 0.95}}
        for compression in ({"name": "none"}, sparse):
            for params in ({"period": 10}, {"period": 10, "fragments": 4, "delay": 1}):
                with self.subTest(compression=compression["name"], params=params):
                    ended = self.run_job(diloco(params=params) | {"compression": compression})
                    summary = ended["summary"]
                    self.assertGreater(summary["accuracy"], 0.6)
                    if compression["name"] == "none":  # a tenth of what every step would send, and what ends it
                        self.assertLess(summary["bytes_sent"], 1.2 * summary["bytes_dense"] / 10)
        still = self.run_job(diloco(params={"period": 10, "outer_lr": 1e-6, "outer_momentum": 0}))
        self.assertLess(still["summary"]["accuracy"], 0.3, "without the outer steps nothing is learnt")

    def test_what_the_workers_would_refuse_is_refused_at_once(self):
        self.cluster.start({"alpha": 2})
        for spec, pointer in ((diloco("signsgd"), "/compression/name"),
                              (diloco(params={"period": 4, "fragments": 5}), "/training/params/fragments"),
                              (diloco(params={"period": 9, "fragments": 2, "delay": 4}), "/training/params/delay")):
            status, _, body = self.cluster.api.request("POST", "/api/v1/jobs", spec)
            self.assertEqual(status, 422, body)
            self.assertIn(f'"{pointer}"'.encode(), body)

    def test_stopped_and_resumed_equals_uninterrupted(self):
        self.cluster.start({"alpha": 2})
        self.check_stopped_and_resumed_equals_uninterrupted(
            diloco("topk", steps=LONG, params={"period": 14, "fragments": 2, "delay": 3}))

    def test_killed_worker_goes_on_from_the_newest(self):
        self.cluster.start({"alpha": 2})
        self.check_killed_worker_goes_on_from_the_newest(
            diloco("topk", steps=LONG, params={"period": 8, "fragments": 2, "delay": 2}))


if __name__ == "__main__":
    unittest.main()
