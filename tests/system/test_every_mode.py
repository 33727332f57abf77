"""What holds in every training mode of the catalog, with the real processes: one worker may be ten times slower than
the others, and a process of any role may be killed."""

import os
import signal
import unittest

from cluster import LONG, PATIENCE, SystemTest, job
from weir_api import poll


class EveryMode(SystemTest):
    def test_slow_worker_and_a_killed_process_of_each_role(self):
        self.cluster.start({"alpha": 4, "beta": 2})
        api = self.cluster.api
        modes = api.get("/api/v1/catalog")["modes"]
        self.assertGreater(len(modes), 5)
        for mode in modes:
            with self.subTest(mode=mode["name"]):
                alone = mode["exchanges"] == "nothing"
                roles = ["worker", *mode.get("roles", {})]
                spec = job(workers=1 if alone else 3, steps=LONG, checkpoint={"every_steps": 10, "keep": 100},
                           fault_tolerance={"max_restarts": len(roles)})
                params = {"slowdown": [10] if alone else [1, 1, 10]}
                if "period" in mode["params"]["properties"]:
                    params["period"] = 5
                spec["training"] |= {"mode": mode["name"], "params": params}
                job_id = api.submit(spec)["id"]
                for restarts, role in enumerate(roles, start=1):
                    self.kill_one_of(job_id, role, restarts)
                api.call("POST", f"/api/v1/jobs/{job_id}/stop")
                ended = api.wait_ended(job_id)
                self.assertEqual((ended["state"], ended["restarts"]), ("STOPPED", len(roles)), ended["reason"])

    def kill_one_of(self, job_id: str, role: str, restarts: int) -> None:
        """After a checkpoint of this attempt; the job goes on beyond it."""
        api = self.cluster.api
        path = f"/api/v1/jobs/{job_id}/checkpoints"
        saved = lambda: max((checkpoint["step"] for checkpoint in api.get(path)["checkpoints"]), default=0)
        before = saved()
        newest = poll(lambda: step if (step := saved()) > before else None, PATIENCE, "a checkpoint of the attempt")
        victim = [w for w in api.job(job_id)["workers"] if w["role"] == role][-1]
        os.kill(victim["pid"], signal.SIGKILL)
        self.cluster.await_attempt(job_id, restarts)
        api.wait_step(job_id, newest + 5)
        events = api.get(f"/api/v1/jobs/{job_id}/events?limit=1000")["events"]
        restart = [e["message"] for e in events if e["kind"] == "job.restart"][-1]
        name = {"worker": "worker", "server": "server", "state_server": "the state server"}[role]
        self.assertRegex(restart, rf"from the checkpoint at step \d+: {name}.* on node .* signal 9")


if __name__ == "__main__":
    unittest.main()
