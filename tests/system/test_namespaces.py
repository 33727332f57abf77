"""The same commands on three hosts: a head and two nodes in network namespaces, joined by a bridge."""

import subprocess
import unittest

from cluster import LONG, PATIENCE, SystemTest, job
from hosts import ApiInside, Hosts
from weir_api import poll


class Namespaces(SystemTest):
    def setUp(self):
        self.hosts = Hosts(3)
        self.addCleanup(self.hosts.remove)  # after the processes inside are gone: cleanups run last first
        try:
            self.hosts.make()
        except (OSError, RuntimeError) as error:
            self.skipTest(f"network namespaces need root with CAP_NET_ADMIN and CAP_SYS_ADMIN ({error})")
        super().setUp()

    def start_head(self) -> str:
        hosts, cluster = self.hosts, self.cluster
        head = hosts.address(0)
        cluster.start_head("--insecure", listen=f"{head}:6380", http="127.0.0.1:8265", prefix=hosts.inside(0))
        cluster.api = ApiInside(cluster.api.address, cluster.api.token, hosts.inside(0))
        return head

    def test_one_head_and_two_node_hosts(self):
        hosts, cluster = self.hosts, self.cluster
        head = self.start_head()
        # One is given the head's address, two its name, which nobody knows yet: containers start in any order.
        cluster.start_node("one", 1, head=f"{head}:6380", prefix=hosts.inside(1))
        two = cluster.start_node("two", 1, head="head.test:6380", prefix=hosts.inside(2))
        poll(lambda: "cannot reach head.test" in cluster.output(two), PATIENCE, lambda: cluster.output(two))
        hosts.tell(2, "head.test", head)
        cluster.await_nodes("one", "two")
        api = cluster.api
        self.assertEqual([api.nodes()[name]["host"] for name in ("one", "two")], [hosts.address(1), hosts.address(2)])
        before = [hosts.bytes_from(i) for i in range(3)]
        ended = api.wait_ended(api.submit(job(workers=2, steps=20))["id"])
        self.assertEqual(ended["state"], "SUCCEEDED", ended["reason"])
        self.assertEqual({w["node"] for w in ended["workers"]}, {"one", "two"})
        crossed = [hosts.bytes_from(i) - before[i] for i in range(3)]
        for worker in ended["workers"]:
            host = {"one": 1, "two": 2}[worker["node"]]
            self.assertGreaterEqual(crossed[host], worker["bytes_sent"], "the gradients crossed the bridge")
        self.assertLess(crossed[0], min(crossed[1:]) / 2, "and did not go through the head")

    def test_workers_that_reach_the_head_but_not_each_other(self):
        hosts, cluster = self.hosts, self.cluster
        head = self.start_head()
        for i, name in enumerate(("one", "two"), start=1):
            cluster.start_node(name, 1, head=f"{head}:6380", prefix=hosts.inside(i))
        cluster.await_nodes("one", "two")
        api = cluster.api
        running = api.submit(job(workers=2, steps=LONG, fault_tolerance={"max_restarts": 0}))["id"]
        api.wait_step(running, 10)
        chain = "add table ip cut; add chain ip cut arriving { type filter hook input priority 0; };"
        rule = f"add rule ip cut arriving ip saddr {hosts.address(1)} drop"
        subprocess.run([*hosts.inside(2), "nft", chain + rule], check=True)
        # Not after the quarter of an hour for which the kernel sends again what is not acknowledged.
        ended = api.wait_ended(running)
        self.assertEqual(ended["state"], "FAILED", ended["reason"])
        self.assertRegex(ended["reason"], "rank [01]", ended["reason"])


if __name__ == "__main__":
    unittest.main()
