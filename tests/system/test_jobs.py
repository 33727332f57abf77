"""Jobs that go well, from submit to SUCCEEDED, with the real processes."""

import collections
import json
import struct
import unittest

from cluster import LONG, ORDERLY_EXITS, PATIENCE, SystemTest, job
from weir_api import poll


def tensors(safetensors: bytes) -> dict[str, bytes]:
    """The bytes of each tensor of a safetensors file, by name."""
    (length,) = struct.unpack("<Q", safetensors[:8])
    header = json.loads(safetensors[8:8 + length])
    data = safetensors[8 + length:]
    return {name: data[entry["data_offsets"][0]:entry["data_offsets"][1]]
            for name, entry in header.items() if name != "__metadata__"}


class Jobs(SystemTest):
    def test_four_workers_on_two_nodes(self):
        self.cluster.start({"alpha": 2, "beta": 2})
        api = self.cluster.api
        for compressor in ("none", "topk", "dgc"):
            with self.subTest(compressor=compressor):
                submitted = api.submit(job(workers=4, steps=12, compressor=compressor, evaluation={"every_steps": 6}))
                ended = api.wait_ended(submitted["id"])
                self.assertEqual(ended["state"], "SUCCEEDED", ended["reason"])
                self.assertEqual((ended["step"], ended["steps_total"]), (12, 12))
                self.assertEqual({w["node"] for w in ended["workers"]}, {"alpha", "beta"})
                poll(lambda: all(w["state"] == "exited" for w in api.job(ended["id"])["workers"]), PATIENCE,
                     "workers exit")
                for worker in api.job(ended["id"])["workers"]:
                    self.assertIn((worker["exit_code"], worker.get("signal")), ORDERLY_EXITS, worker)
                summary = ended["summary"]
                self.assertGreater(summary["accuracy"], 0)
                self.assertGreater(summary["bytes_sent"], 0)
                if compressor == "none":  # the dense ring itself, plus its framing
                    self.assertGreaterEqual(summary["bytes_sent"], summary["bytes_dense"])
                    self.assertLess(summary["bytes_sent"], 1.05 * summary["bytes_dense"])
                self.check_traffic(ended["id"], summary["bytes_sent"])
                losses = api.series(ended["id"], "loss")
                self.assertEqual(losses[-1][0], 12)
                for rank in range(4):
                    self.assertTrue(api.series(ended["id"], "bytes_sent", rank), f"rank {rank} sent no metrics")
                states = [e["kind"] for e in api.get(f"/api/v1/jobs/{ended['id']}/events?limit=1000")["events"]]
                self.assertTrue(states)
                self.assertTrue(api.get(f"/api/v1/jobs/{ended['id']}/logs?worker=0")["text"], "rank 0 printed nothing")
        self.cluster.await_idle("alpha", "beta")

    def check_traffic(self, job_id: str, bytes_sent: int) -> None:
        traffic = self.cluster.api.get(f"/api/v1/jobs/{job_id}/traffic")
        self.assertEqual(traffic["bytes_sent"], bytes_sent)
        self.assertEqual(sum(link["bytes_sent"] for link in traffic["links"]), bytes_sent)
        self.assertEqual(sum(phase["bytes_sent"] for phase in traffic["phases"]), bytes_sent)
        self.assertLessEqual(len(traffic["tensors"]), 20)
        links = {(link["from"], link["to"]) for link in traffic["links"]}
        rings = [{(rank, (rank + distance) % 4) for rank in range(4)} for distance in (1, -1)]
        self.assertTrue(rings[0] <= links or rings[1] <= links, "sums go to the next rank, gathers to the one before")
        for link in traffic["links"]:  # a rank that is done earlier may have said goodbye, a header in each lane
            self.assertLessEqual(0, link["bytes_received"] - link["bytes_sent"], link)
            self.assertLessEqual(link["bytes_received"] - link["bytes_sent"], 1024, link)
        saved = self.cluster.folder / "trace.json"
        done = self.cluster.run("--data-dir", self.cluster.data_dir, "job", "trace", job_id, "-o", saved, "--force")
        self.assertEqual(done.returncode, 0, done.stderr)
        trace = json.loads(saved.read_text())
        self.assertEqual([(one["worker"], one["step"]) for one in trace["otherData"]["steps"]],
                         [(rank, 12) for rank in range(4)], "the last step of all workers")
        kinds = {(event["pid"] - 1, event["cat"]) for event in trace["traceEvents"] if event["ph"] != "M"}
        self.assertEqual(kinds, {(rank, cat) for rank in range(4) for cat in ("encode", "wait", "wire", "decode")})
        busy = collections.defaultdict(int)
        for event in trace["traceEvents"]:  # by time; viewers drop what overlaps on a thread
            if event["ph"] == "X":
                self.assertGreaterEqual(event["ts"], busy[event["pid"], event["tid"]], event)
                busy[event["pid"], event["tid"]] = event["ts"] + event["dur"]
        self.assertTrue(all(tid < 100 for _, tid in busy), "a ring's lane carries one bucket at a time")

    def test_a_topology_that_the_workers_choose(self):
        self.cluster.start({"alpha": 2, "beta": 1})
        api = self.cluster.api
        # Enough steps for as many trials as there may be, and too few for finding that the plan has become slow.
        spec = job(workers=3, steps=120, compressor="topk", exchange={"topology": "auto"})
        checked = api.call("POST", "/api/v1/jobs/validate", spec)
        self.assertIsNone(checked["round_bytes"]["sent_per_worker"], "only the workers know")
        self.assertGreater(checked["round_bytes"]["dense_per_worker"], 0)
        ended = api.wait_ended(api.submit(spec)["id"])
        self.assertEqual(ended["state"], "SUCCEEDED", ended["reason"])

        plan = api.get(f"/api/v1/jobs/{ended['id']}/traffic")["plan"]
        self.assertFalse(plan["on_trial"], plan)
        self.assertGreater(plan["latency_seconds"], 0)
        self.assertGreater(plan["bytes_per_second"], 0)
        self.assertEqual(sum(route["bytes"] for route in plan["routes"]), 4 * 431_080, "all of LeNet, in 32 bits")
        self.assertEqual([one["measured_seconds"] > 0 for one in plan["candidates"]], [True] * len(plan["candidates"]))
        followed = [one["routes"] for one in plan["candidates"] if one["followed"]]
        self.assertEqual(len(followed), 1, plan)

        events = api.get(f"/api/v1/jobs/{ended['id']}/events?limit=1000")["events"]
        told = [event["message"] for event in events if event["kind"] == "exchange.planned"]
        self.assertEqual(len(told), 2, "the first plan, and what is followed after the trials")
        self.assertRegex(told[0], r"^from step 1 on: .* \(the fastest by the model\)$")
        self.assertEqual(told[1], f"from step {plan['step']} on: {followed[0]} ({plan['reason']})")

        printed = self.cluster.run("--data-dir", self.cluster.data_dir, "job", "traffic", ended["id"])
        self.assertEqual(printed.returncode, 0, printed.stderr)
        self.assertIn(f"from step {plan['step']} ", printed.stdout)
        self.assertIn(plan["reason"], printed.stdout)
        self.assertRegex(printed.stdout, rf"(?m) yes +{followed[0]}$")

    def test_two_at_once(self):
        self.cluster.start({"alpha": 4})
        api = self.cluster.api
        ids = [api.submit(job(workers=2, steps=LONG, compressor=c))["id"] for c in ("none", "dgc")]
        for job_id in ids:
            api.wait_step(job_id, 3)
        for job_id in ids:
            self.assertEqual(api.job(job_id)["state"], "RUNNING", "both train at the same time")
            api.call("POST", f"/api/v1/jobs/{job_id}/stop")
        for job_id in ids:
            ended = api.wait_ended(job_id)
            self.assertEqual(ended["state"], "STOPPED", ended["reason"])
        self.cluster.await_idle("alpha")

    def test_waits_for_a_free_slot(self):
        self.cluster.start({"alpha": 2})
        api = self.cluster.api
        first = api.submit(job(workers=2, steps=LONG))["id"]
        api.wait_step(first, 1)
        second = api.submit(job(workers=2, steps=3))["id"]
        waiting = api.wait_job(second, lambda j: j["reason"], PATIENCE, "a job that says why it waits")
        self.assertEqual(waiting["state"], "PENDING")
        api.call("POST", f"/api/v1/jobs/{first}/stop")
        self.assertEqual(api.wait_ended(second)["state"], "SUCCEEDED")

    def test_resumed_equals_uninterrupted_bit_for_bit(self):
        self.cluster.start({"alpha": 2})
        api = self.cluster.api
        # A warm-up whose length is that of the training would be another one in each of these jobs.
        spec = job(workers=2, steps=LONG, compression={"name": "dgc", "params": {"warmup_epochs": 0.02}},
                   checkpoint={"every_steps": 50, "keep": 10})

        def final_tensors(job_id: str, steps: int) -> dict[str, bytes]:
            path = f"/api/v1/jobs/{job_id}/checkpoints"
            self.assertIn(steps, [c["step"] for c in api.get(path)["checkpoints"]])
            status, _, body = api.request("GET", f"{path}/{steps}")
            self.assertEqual(status, 200)
            return tensors(body)

        interrupted = api.submit(spec)["id"]
        api.wait_step(interrupted, 5)
        api.call("POST", f"/api/v1/jobs/{interrupted}/stop")
        stopped = api.wait_ended(interrupted)
        self.assertEqual(stopped["state"], "STOPPED", stopped["reason"])
        kept = [c["step"] for c in api.get(f"/api/v1/jobs/{interrupted}/checkpoints")["checkpoints"]]
        self.assertIn(stopped["step"], kept, "a stop leaves a checkpoint at its step")

        steps = spec["training"]["max_steps"] = stopped["step"] + 120
        whole = api.wait_ended(api.submit(spec)["id"])
        self.assertEqual(whole["state"], "SUCCEEDED", whole["reason"])
        spec["checkpoint"]["resume_from"] = {"job": interrupted, "step": stopped["step"]}
        resumed = api.wait_ended(api.submit(spec)["id"])
        self.assertEqual(resumed["state"], "SUCCEEDED", resumed["reason"])

        expected, found = final_tensors(whole["id"], steps), final_tensors(resumed["id"], steps)
        self.assertEqual(expected.keys(), found.keys())
        self.assertEqual([name for name in expected if expected[name] != found[name]], [])

    def test_stop_is_idempotent_and_delete_wants_an_end(self):
        self.cluster.start({"alpha": 2})
        api = self.cluster.api
        job_id = api.submit(job(steps=LONG))["id"]
        api.wait_step(job_id, 1)
        self.assertEqual(api.request("DELETE", f"/api/v1/jobs/{job_id}")[0], 409)
        for _ in range(2):
            self.assertLess(api.request("POST", f"/api/v1/jobs/{job_id}/stop")[0], 300)
        ended = api.wait_ended(job_id)
        self.assertEqual(ended["state"], "STOPPED", ended["reason"])
        self.assertLess(api.request("POST", f"/api/v1/jobs/{job_id}/stop")[0], 300)
        self.assertEqual(api.request("DELETE", f"/api/v1/jobs/{job_id}")[0], 204)
        self.assertEqual(api.request("GET", f"/api/v1/jobs/{job_id}")[0], 404)


class Stream(SystemTest):
    def test_follows_a_job_to_its_end_and_resumes_without_gap_or_repeat(self):
        self.cluster.start({"alpha": 2})
        api = self.cluster.api
        job_id = api.submit(job(steps=30))["id"]
        followed = list(api.stream(f"job:{job_id}", after=0))
        self.assertEqual(followed[-1][1], "job_end")
        self.assertEqual(followed[-1][2]["state"], "SUCCEEDED")
        numbers = [sequence for sequence, _, _ in followed if sequence is not None]
        self.assertEqual(numbers, sorted(set(numbers)))
        middle = numbers[len(numbers) // 2]
        again = [sequence for sequence, _, _ in api.stream(f"job:{job_id}", after=middle) if sequence is not None]
        self.assertEqual(again, [n for n in numbers if n > middle])


if __name__ == "__main__":
    unittest.main()
