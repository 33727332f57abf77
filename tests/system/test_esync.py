"""ESync with the real processes: a state server among a job's actors, and workers of different speeds."""

import os
import signal
import unittest

from cluster import LONG, PATIENCE, SystemTest, job
from test_jobs import tensors
from weir_api import poll


def esync(compressor: str = "none", steps: int = 60, slowdown: list | None = None, params: dict | None = None,
          **changes) -> dict:
    spec = job(workers=3, steps=steps, compressor=compressor, **changes)
    spec["training"] |= {"mode": "esync", "params": {"slowdown": slowdown or [], **(params or {})}}
    return spec


class ESync(SystemTest):
    def ended(self, job_id: str, state: str = "SUCCEEDED") -> dict:
        ended = self.cluster.api.wait_ended(job_id)
        self.assertEqual(ended["state"], state, ended["reason"])
        return ended

    def local_steps(self, job_id: str, rank: int) -> float:
        """The mean over the rounds that its points tell of."""
        points = [point[-1] for point in self.cluster.api.series(job_id, "local_steps", rank)]
        return sum(points) / len(points)

    def test_the_fast_make_more_steps_while_the_slow_makes_one(self):
        self.cluster.start({"alpha": 2, "beta": 2})
        api = self.cluster.api
        for compressor in ("none", "topk"):
            with self.subTest(compressor=compressor):
                # The fast ones wait, too: otherwise they contend for the machine's cores.
                spec = esync(compressor, steps=150, slowdown=[4, 4, 20])
                job_id = api.submit(spec)["id"]
                ended = self.ended(job_id)
                self.assertEqual(ended["step"], 150)
                self.assertGreater(ended["summary"]["accuracy"], 0.5)
                workers = sorted(api.job(job_id)["workers"], key=lambda w: w["rank"])
                self.assertEqual([w["role"] for w in workers], ["worker"] * 3 + ["state_server"])
                traffic = api.get(f"/api/v1/jobs/{job_id}/traffic")
                links = {(link["from"], link["to"]) for link in traffic["links"]}
                for rank in range(3):
                    self.assertLessEqual({(rank, 3), (3, rank)}, links, "with the state server")
                slow = self.local_steps(job_id, 2)
                for fast in (0, 1):
                    self.assertGreater(self.local_steps(job_id, fast), 1.5 * slow)
                rounds = len({point[0] for point in api.series(job_id, "local_steps", 0)})
                self.assertLess(rounds, 150, "a round is more than a step of the job")

    def test_a_worker_with_a_slow_link_sends_less(self):
        self.cluster.start({"alpha": 3})
        api = self.cluster.api
        spec = esync(steps=LONG, params={"adapt_compression": True, "link_rate": ["none", "none", "4mbit"]})
        status, _, body = api.request("POST", "/api/v1/jobs", spec)
        self.assertEqual(status, 422, body)
        self.assertIn(b"/training/params/adapt_compression", body)
        spec["compression"] = {"name": "topk", "params": {"ratio": 0.1}}
        job_id = api.submit(spec)["id"]
        shares = lambda rank: [point[-1] for point in api.series(job_id, "compression_share", rank)]
        # How many rounds that takes depends on how many local steps there is time for.
        poll(lambda: min(shares(2), default=1) < 0.5, 2 * PATIENCE, lambda: f"it goes on sending as much: {shares(2)}")
        api.call("POST", f"/api/v1/jobs/{job_id}/stop")
        self.ended(job_id, "STOPPED")
        self.assertEqual(shares(2)[0], 1, "at first nothing is known")
        for fast in (0, 1):
            self.assertEqual(min(shares(fast)), 1)

    def test_the_state_server_is_an_actor_with_a_place(self):
        self.cluster.start({"alpha": 4})
        api = self.cluster.api
        job_id = api.submit(esync(steps=LONG))["id"]
        api.wait_step(job_id, 5)
        state_server = next(w for w in api.job(job_id)["workers"] if w["role"] == "state_server")
        self.assertEqual((state_server["rank"], state_server["node"]), (3, "alpha"))
        actors = api.get("/api/v1/actors")["actors"]
        self.assertTrue(any(a["name"].endswith("/state_server") and a["job"] == job_id for a in actors), actors)
        api.call("POST", f"/api/v1/jobs/{job_id}/stop")
        self.ended(job_id, "STOPPED")
        status, _, body = api.request("POST", "/api/v1/jobs/validate", esync() | {"compression": {"name": "signsgd"}})
        self.assertEqual(status, 422, body)
        self.assertIn(b"differences between their models", body)

    def test_waits_for_a_place_of_the_state_server(self):
        self.cluster.start({"alpha": 3})
        api = self.cluster.api
        needs = {"workers": 3, "per_state_server": {"cpu": 1}}
        job_id = api.submit(esync(resources=needs))["id"]
        waiting = api.wait_job(job_id, lambda j: j["reason"], PATIENCE, "a reason to wait")
        self.assertIn("state server", waiting["reason"])

    def test_stopped_and_resumed(self):
        self.cluster.start({"alpha": 4})
        api = self.cluster.api
        interrupted = api.submit(esync("topk", steps=LONG, slowdown=[1, 1, 5]))["id"]
        api.wait_step(interrupted, 20)
        api.call("POST", f"/api/v1/jobs/{interrupted}/stop")
        step = self.ended(interrupted, "STOPPED")["step"]
        saved = self.checkpoint(interrupted, step)
        resumed = api.submit(esync("topk", steps=step + 30, slowdown=[1, 1, 5], checkpoint={
            "resume_from": {"job": interrupted, "step": step}}))["id"]
        self.assertEqual(self.ended(resumed)["step"], step + 30)
        after = self.checkpoint(resumed, step + 30)
        self.assertEqual(saved.keys(), after.keys())

        def steps_in(checkpoint: dict[str, bytes]) -> tuple[int, list[int]]:
            of_all = int.from_bytes(checkpoint["mode.counts"][:8], "little")
            return of_all, [int.from_bytes(checkpoint[f"rank.{rank}.mode.counts"], "little") for rank in range(3)]

        for checkpoint, due in ((saved, step), (after, step + 30)):
            of_all, each = steps_in(checkpoint)
            self.assertEqual(sum(each), of_all, "each local step is counted once")
            self.assertEqual(of_all // 3, due)
        self.assertGreater(min(b - a for a, b in zip(steps_in(saved)[1], steps_in(after)[1])), 0)

    def checkpoint(self, job_id: str, step: int) -> dict[str, bytes]:
        status, _, body = self.cluster.api.request("GET", f"/api/v1/jobs/{job_id}/checkpoints/{step}")
        self.assertEqual(status, 200)
        return tensors(body)

    def killed(self, rank: int, name: str) -> None:
        self.cluster.start({"alpha": 4})
        api = self.cluster.api
        spec = esync("topk", steps=LONG, slowdown=[1, 1, 5], checkpoint={"every_steps": 20, "keep": 100},
                     fault_tolerance={"max_restarts": 1})
        job_id = api.submit(spec)["id"]
        path = f"/api/v1/jobs/{job_id}/checkpoints"
        poll(lambda: api.get(path)["checkpoints"], PATIENCE, "a checkpoint")
        victim = next(w for w in api.job(job_id)["workers"] if w["rank"] == rank)
        os.kill(victim["pid"], signal.SIGKILL)
        again = self.cluster.await_attempt(job_id, 1)
        api.wait_step(job_id, again["step"] + 50)
        api.call("POST", f"/api/v1/jobs/{job_id}/stop")
        ended = self.ended(job_id, "STOPPED")
        self.assertEqual(ended["restarts"], 1)
        events = api.get(f"/api/v1/jobs/{job_id}/events?limit=1000")["events"]
        restart = next(e["message"] for e in events if e["kind"] == "job.restart")
        self.assertRegex(restart, rf"from the checkpoint at step \d+: {name} on node alpha .* signal 9")

    def test_killed_worker_goes_on_from_the_newest(self):
        self.killed(1, "worker 1")

    def test_killed_state_server_goes_on_from_the_newest(self):
        self.killed(3, "the state server")


if __name__ == "__main__":
    unittest.main()
