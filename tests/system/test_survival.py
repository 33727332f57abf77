"""Processes that stop for a while, slow lines and workers that die: which jobs go on, and how."""

import os
import signal
import time
import unittest

from cluster import LONG, ORDERLY_EXITS, PATIENCE, Process, SystemTest, job
from slow_link import SlowLink
from test_failures import gone
from weir_api import poll

OWN_POINTS = 1024  # so many of a job's first steps have a point each in its metrics


class Stopped(SystemTest):
    """SIGSTOP and SIGCONT. How long a process is stopped is what is tested; nothing else depends on time."""

    def running_job(self, **changes) -> str:
        job_id = self.cluster.api.submit(job(workers=2, steps=LONG, **changes))["id"]
        self.cluster.api.wait_step(job_id, 3)
        return job_id

    def stop_for(self, process: Process, seconds: float) -> None:
        process.signal(signal.SIGSTOP)
        end = time.monotonic() + seconds
        poll(lambda: time.monotonic() >= end, seconds + PATIENCE, "time to pass")
        process.signal(signal.SIGCONT)

    def end_well(self, job_id: str) -> None:
        """It is where it was, and goes on: nothing was lost, and a stop is still agreed on by its workers."""
        api = self.cluster.api
        step = api.job(job_id)["step"]
        found = api.wait_step(job_id, step + 20)
        self.assertEqual((found["state"], found["restarts"]), ("RUNNING", 0), found["reason"])
        api.call("POST", f"/api/v1/jobs/{job_id}/stop")
        ended = api.wait_ended(job_id)
        self.assertEqual((ended["state"], ended["restarts"]), ("STOPPED", 0), ended["reason"])
        self.assertRegex(ended["reason"], "stopped on request at step")
        kinds = [e["kind"] for e in api.get("/api/v1/events?limit=1000")["events"]]
        self.assertNotIn("node.lost", kinds)
        for worker in ended["workers"]:
            self.assertIn((worker["exit_code"], worker.get("signal")), ORDERLY_EXITS, worker)
        self.cluster.await_idle("alpha", "beta")

    def test_head(self):
        self.cluster.start({"alpha": 1, "beta": 1})
        job_id = self.running_job(fault_tolerance={"max_restarts": 0})
        workers = {w["pid"] for w in self.cluster.api.job(job_id)["workers"]}
        for seconds in (3, 5):
            self.stop_for(self.cluster.head, seconds)
            self.assertEqual({w["pid"] for w in self.cluster.api.job(job_id)["workers"]}, workers)
        self.end_well(job_id)

    def test_agent(self):
        self.cluster.start({"alpha": 1, "beta": 1})
        job_id = self.running_job(fault_tolerance={"max_restarts": 0})
        nodes = self.cluster.api.nodes
        for seconds in (3, 5):
            self.stop_for(self.cluster.node_processes["alpha"], seconds)
            # Its lease begins anew with a heartbeat that is answered.
            before = nodes()["alpha"]["last_heartbeat_at"]
            poll(lambda: nodes()["alpha"]["last_heartbeat_at"] > before, PATIENCE, "alpha's heart does not beat again")
        self.end_well(job_id)

    def stop_head_beside_a_job(self, steps: int, seconds: float) -> tuple[int, float]:
        """The step at which a job of so many was seen last before the head was stopped, and the seconds that it took
        from there to its end."""
        api = self.cluster.api
        job_id = api.submit(job(workers=2, steps=steps, fault_tolerance={"max_restarts": 0}))["id"]
        reached = api.wait_step(job_id, 3)["step"]
        self.stop_for(self.cluster.head, seconds)
        ended = api.wait_ended(job_id)
        self.assertEqual((ended["state"], ended["step"], ended["restarts"]), ("SUCCEEDED", steps, 0), ended["reason"])
        took = [point[-1] for point in api.series(job_id, "step_seconds", 0) if point[0] > reached]
        self.assertEqual(len(took), steps - reached)
        return reached, sum(took)

    def test_job_ends_while_the_head_is_stopped(self):
        """How many steps a job needs for it depends on the machine: their number is searched for. The head is stopped
        for half of the time after which its workers would give it up."""
        self.cluster.start({"alpha": 2})
        steps, seconds = 200, 5
        tried = []
        for _ in range(8):
            reached, took = self.stop_head_beside_a_job(steps, seconds)
            tried.append(f"{took:.1f} s of {steps} steps after step {reached}")
            if reached == steps:  # it had ended before the head was stopped
                steps = min(2 * steps, 1000)
            # By the worker's own clock: what the head had not seen yet took less time than the head was stopped.
            elif took < seconds:
                return
            else:  # it was still running when the head went on
                steps = max(steps // 3, 6)
        self.fail(f"no job ended within the {seconds} s for which the head was stopped: {', '.join(tried)}")

    def test_agent_beyond_its_lease(self):
        self.cluster.start({"alpha": 1, "beta": 1})
        api = self.cluster.api
        job_id = self.running_job(checkpoint={"every_steps": 20}, fault_tolerance={"max_restarts": 1})
        poll(lambda: api.get(f"/api/v1/jobs/{job_id}/checkpoints")["checkpoints"], PATIENCE, "a checkpoint")
        before = {w["node"]: w["pid"] for w in api.job(job_id)["workers"]}
        agent = self.cluster.node_processes["alpha"]
        agent.signal(signal.SIGSTOP)
        self.addCleanup(agent.signal, signal.SIGCONT)
        poll(lambda: api.nodes()["alpha"]["state"] == "lost", PATIENCE, "alpha is not given up")
        poll(lambda: gone([before["alpha"]]), PATIENCE, "the worker outlives its lease beside a stopped agent")

        self.cluster.start_node("gamma", 1)
        found = self.cluster.await_attempt(job_id, 1)
        self.assertEqual({w["node"] for w in found["workers"] if w["state"] == "running"}, {"beta", "gamma"})
        self.assertTrue(gone(list(before.values())), "no worker of the first attempt is left beside the second")

        agent.signal(signal.SIGCONT)
        self.cluster.await_nodes("alpha")
        api.wait_step(job_id, api.job(job_id)["step"] + 5)
        api.call("POST", f"/api/v1/jobs/{job_id}/stop")
        ended = api.wait_ended(job_id)
        self.assertEqual((ended["state"], ended["restarts"]), ("STOPPED", 1), ended["reason"])
        events = api.get(f"/api/v1/jobs/{job_id}/events?limit=1000")["events"]
        restart = next(e["message"] for e in events if e["kind"] == "job.restart")
        self.assertRegex(restart, "node alpha was lost .*no heartbeat")


class Drained(SystemTest):
    def test_lasts_until_it_is_undone(self):
        self.cluster.start({"alpha": 1})
        api, address = self.cluster.api, self.cluster.api.address

        def weir(*arguments) -> None:
            done = self.cluster.run(*arguments, "--address", self.cluster.api.address, "--data-dir",
                                    self.cluster.data_dir)
            self.assertEqual(done.returncode, 0, done.stderr)

        def draining() -> bool:
            return self.cluster.api.nodes().get("alpha", {}).get("state") == "draining"

        weir("node", "drain", "alpha")
        self.assertTrue(draining())
        waiting = api.submit(job(workers=1, steps=3))["id"]
        self.assertEqual(self.cluster.node_processes.pop("alpha").stop(), 0)
        self.cluster.start_node("alpha", 1)
        poll(lambda: draining() and api.nodes()["alpha"]["pid"] == self.cluster.node_processes["alpha"].pid, PATIENCE,
             "a new agent of that name is not drained")
        control = self.cluster.control
        self.cluster.head.kill()
        self.cluster.start_head(listen=control, http=address)
        poll(draining, PATIENCE, "after a restart of the head the node is not drained")
        self.assertEqual(self.cluster.api.job(waiting)["state"], "PENDING")
        weir("node", "drain", "alpha", "--undo")
        self.assertEqual(self.cluster.api.wait_ended(waiting)["state"], "SUCCEEDED")


class Checkpoints(SystemTest):
    def test_over_a_slow_line(self):
        """1.7 MB and more of each share at 120 kB/s take longer than the 10 s for which silence is suffered."""
        self.cluster.start_head()
        line = SlowLink(self.cluster.control, 120_000)
        self.addCleanup(line.close)
        self.cluster.start_node("far", 1, head=line.address)
        self.cluster.await_nodes("far")
        api = self.cluster.api
        spec = job(workers=1, steps=5, checkpoint={"every_steps": 5}, fault_tolerance={"max_restarts": 0})
        ended = api.wait_ended(api.submit(spec)["id"], 300)
        self.assertEqual((ended["state"], ended["restarts"]), ("SUCCEEDED", 0), ended["reason"])
        checkpoints = api.get(f"/api/v1/jobs/{ended['id']}/checkpoints")["checkpoints"]
        self.assertEqual([c["step"] for c in checkpoints], [5])
        self.assertGreater(checkpoints[0]["bytes"], 1_700_000)
        self.assertLess(line.carried, 1.5 * checkpoints[0]["bytes"], "the share went over the line once")
        self.assertEqual(line.links, 2, "one link of the node, one of the worker: none was replaced")

    def test_killed_worker_goes_on_from_the_newest(self):
        self.cluster.start({"alpha": 2})
        api = self.cluster.api
        spec = job(workers=2, steps=LONG, checkpoint={"every_steps": 20, "keep": 1000},
                   fault_tolerance={"max_restarts": 1})
        spec["training"]["batch_size"] = 64  # slow steps: it is not to go far beyond OWN_POINTS
        job_id = api.submit(spec)["id"]
        path = f"/api/v1/jobs/{job_id}/checkpoints"
        poll(lambda: api.get(path)["checkpoints"], PATIENCE, "a checkpoint")
        victim = next(w for w in api.job(job_id)["workers"] if w["rank"] == 1)
        os.kill(victim["pid"], signal.SIGKILL)
        found = self.cluster.await_attempt(job_id, 1)
        api.wait_step(job_id, found["step"] + 50)
        api.call("POST", f"/api/v1/jobs/{job_id}/stop")
        ended = api.wait_ended(job_id)
        self.assertEqual((ended["state"], ended["restarts"]), ("STOPPED", 1), ended["reason"])
        last = ended["step"]

        events = api.get(f"/api/v1/jobs/{job_id}/events?limit=1000")["events"]
        restart = next(e["message"] for e in events if e["kind"] == "job.restart")
        self.assertRegex(restart, r"from the checkpoint at step \d+: worker 1 on node alpha .* signal 9")
        step = int(restart.split("from the checkpoint at step ")[1].split(":")[0])
        self.assertEqual(step % 20, 0)
        self.assertGreaterEqual(step, 20)
        again = [point[2] for _, kind, data in api.stream(f"job:{job_id}", after=0)
                 if kind == "metrics" and data["restarts"] == 1 for point in data["points"]
                 if point[:2] == ["loss", 0]]
        self.assertEqual([s for s in again if s <= OWN_POINTS], list(range(step + 1, min(last, OWN_POINTS) + 1)),
                         "each step after the checkpoint once, none before it")
        poll(lambda: not self.cluster.worker_processes(), PATIENCE, "workers are left")
        self.assertEqual([c["step"] for c in api.get(path)["checkpoints"]],
                         sorted({*range(20, last + 1, 20), last}))


if __name__ == "__main__":
    unittest.main()
