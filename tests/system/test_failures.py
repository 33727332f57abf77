"""Processes killed with -9 at the worst time: what is said, what is kept, and that nothing is left running."""

import os
import signal
import unittest

from cluster import LONG, PATIENCE, SystemTest, job
from weir_api import ENDED, Api, poll


def gone(pids: list[int]) -> bool:
    return not any(os.path.exists(f"/proc/{pid}/root/.") for pid in pids)


class Killed(SystemTest):
    def worker_pids(self, job_id: str) -> dict[int, int]:
        return {w["rank"]: w["pid"] for w in self.cluster.api.job(job_id)["workers"]}

    def test_worker(self):
        self.cluster.start({"alpha": 2, "beta": 2})
        api = self.cluster.api
        job_id = api.submit(job(workers=4, steps=LONG, compressor="dgc", fault_tolerance={"max_restarts": 0}))["id"]
        api.wait_step(job_id, 2)
        victim = next(w for w in api.job(job_id)["workers"] if w["rank"] == 2)
        os.kill(victim["pid"], signal.SIGKILL)

        ended = api.wait_ended(job_id)
        self.assertEqual(ended["state"], "FAILED")
        self.assertRegex(ended["reason"], r"\b(worker|rank) 2\b")
        self.assertIn(victim["node"], ended["reason"])
        self.assertRegex(ended["reason"], r"signal 9|SIGKILL")
        self.cluster.await_idle("alpha", "beta")

        after = api.wait_ended(api.submit(job(workers=4, steps=3))["id"])
        self.assertEqual(after["state"], "SUCCEEDED", "the slots are free again")

    def test_node_agent(self):
        self.cluster.start({"alpha": 2, "beta": 2})
        api = self.cluster.api
        job_id = api.submit(job(workers=4, steps=LONG, fault_tolerance={"max_restarts": 0}))["id"]
        api.wait_step(job_id, 2)
        on_beta = [w["pid"] for w in api.job(job_id)["workers"] if w["node"] == "beta"]
        self.assertTrue(on_beta)
        self.cluster.node_processes.pop("beta").kill()

        poll(lambda: gone(on_beta), PATIENCE, "workers outlive their agent")
        ended = api.wait_ended(job_id)
        self.assertEqual(ended["state"], "FAILED")
        self.assertIn("beta", ended["reason"])
        poll(lambda: api.nodes()["beta"]["state"] == "lost", PATIENCE, "beta is not declared lost")
        self.cluster.await_idle("alpha")

        self.cluster.start_node("beta", 2)
        self.cluster.await_nodes("alpha", "beta")
        self.assertEqual(api.wait_ended(api.submit(job(workers=4, steps=3))["id"])["state"], "SUCCEEDED")

    def test_head_loses_nothing_it_acknowledged(self):
        self.cluster.start({"alpha": 2})
        api = self.cluster.api
        done = api.wait_ended(api.submit(job(workers=2, steps=10))["id"])
        running = api.submit(job(workers=1, steps=LONG, fault_tolerance={"max_restarts": 0}))["id"]
        queued = api.submit(job(workers=2, steps=5))["id"]
        api.wait_step(running, 20)

        def history(api: Api) -> dict:
            ids = (done["id"], running, queued)
            metrics = {(i, n, w): api.series(i, n, w) for i in ids for n, w in (("loss", 0), ("loss", None))}
            events = {i: api.get(f"/api/v1/jobs/{i}/events?limit=1000")["events"] for i in ids}
            return {"jobs": {i: api.job(i) for i in ids}, "metrics": metrics, "events": events}

        last_sequence = [s for s, _, _ in api.stream(f"job:{done['id']}", after=0) if s is not None][-1]
        before = history(api)
        workers = [w["pid"] for w in api.job(running)["workers"]]
        control, http = self.cluster.control, api.address
        self.cluster.head.kill()
        self.cluster.start_head(listen=control, http=http)
        api = self.cluster.api
        self.cluster.await_nodes("alpha")

        after = history(api)
        self.assertEqual(after["jobs"][done["id"]], before["jobs"][done["id"]])
        for job_id in (running, queued):
            self.assertEqual(after["jobs"][job_id]["spec"], before["jobs"][job_id]["spec"])
            self.assertGreaterEqual(after["jobs"][job_id]["step"], before["jobs"][job_id]["step"])
        for key, points in before["metrics"].items():
            self.assertEqual(after["metrics"][key][:len(points)], points, f"metrics of {key}")
        for job_id, events in before["events"].items():
            self.assertEqual([e for e in events if e not in after["events"][job_id]], [], "events lost")
        kept = (s for s, _, _ in api.stream("jobs,cluster", after=last_sequence) if s is not None)
        self.assertGreater(next(kept), last_sequence, "the stream goes on by the same numbers")

        ended = api.wait_ended(running)
        self.assertEqual((ended["state"], ended["reason"]), ("FAILED", "the head restarted while the job ran"))
        poll(lambda: gone(workers), PATIENCE, "workers of the job that failed are still there")
        self.assertEqual(api.wait_ended(queued)["state"], "SUCCEEDED", "what was queued runs after the restart")

    def test_head_goes_on_with_what_ran(self):
        self.cluster.start({"alpha": 2})
        api = self.cluster.api
        spec = job(workers=2, steps=LONG, checkpoint={"every_steps": 10}, fault_tolerance={"max_restarts": 1})
        job_id = api.submit(spec)["id"]
        poll(lambda: api.get(f"/api/v1/jobs/{job_id}/checkpoints")["checkpoints"], PATIENCE, "no checkpoint")
        workers = list(self.worker_pids(job_id).values())
        self.cluster.head.kill()
        self.cluster.start_head(listen=self.cluster.control, http=api.address)
        api = self.cluster.api

        again = self.cluster.await_attempt(job_id, 1)
        self.assertTrue(gone(workers), "the first attempt ends before the second begins")
        events = api.get(f"/api/v1/jobs/{job_id}/events?limit=1000")["events"]
        (restart,) = [event["message"] for event in events if event["kind"] == "job.restart"]
        self.assertRegex(restart, r"^restart 1 of 1 from the checkpoint at step \d+0: the head restarted")
        api.wait_step(job_id, again["step"] + 1)

    def test_up_takes_all_with_it(self):
        up = self.cluster.weir("up", "--nodes", 2, "--cpus-per-node", 1, "--listen", "127.0.0.1:0", "--data-dir",
                               self.cluster.data_dir, "--http", "127.0.0.1:0", name="up")
        self.cluster.node_processes["up"] = up
        self.cluster.await_endpoints(up)
        api = self.cluster.api
        poll(lambda: len([n for n in api.nodes().values() if n["state"] == "alive"]) == 2, PATIENCE, "two nodes")
        job_id = api.submit(job(workers=2, steps=LONG))["id"]
        api.wait_step(job_id, 1)
        self.assertEqual(len(self.cluster.worker_processes()), 2)
        up.kill()  # that nothing outlives it is what every test checks as it ends

    def test_up_starts_its_nodes_once_the_head_can_say_where_it_is(self):
        in_the_way = self.cluster.data_dir / "endpoints.json.new"  # the head cannot write it, as on a full disk
        in_the_way.mkdir(parents=True)
        up = self.cluster.weir("up", "--nodes", 1, "--listen", "127.0.0.1:0", "--data-dir", self.cluster.data_dir,
                               "--http", "127.0.0.1:0", name="up")
        self.cluster.node_processes["up"] = up
        poll(lambda: "trying again" in self.cluster.output(up), PATIENCE, "no warning")
        in_the_way.rmdir()
        self.cluster.await_endpoints(up)
        poll(lambda: [n["state"] for n in self.cluster.api.nodes().values()] == ["alive"], PATIENCE, "a node")


class HeadComesLate(SystemTest):
    def test_node_waits_for_its_head_and_joins_again(self):
        self.cluster.start({"alpha": 1})
        control, http = self.cluster.control, self.cluster.api.address
        self.assertEqual(self.cluster.head.stop(), 0)
        self.assertTrue(self.cluster.node_processes["alpha"].alive())
        self.cluster.start_head(listen=control, http=http)
        self.cluster.await_nodes("alpha")
        job_id = self.cluster.api.submit(job(workers=1, steps=3))["id"]
        ended = self.cluster.api.wait_ended(job_id)
        self.assertIn(ended["state"], ENDED)
        self.assertEqual(ended["state"], "SUCCEEDED", ended["reason"])


if __name__ == "__main__":
    unittest.main()
