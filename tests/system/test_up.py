"""`weir up` that is interrupted before everything is up: it ends, and nothing of it stays."""

import signal
import unittest
from pathlib import Path

from cluster import PATIENCE, Process, SystemTest, processes_with
from weir_api import poll


class InterruptedUp(SystemTest):
    def begin(self) -> Process:
        up = self.cluster.weir("up", "--nodes", 2, "--cpus-per-node", 1, "--listen", "127.0.0.1:0", "--data-dir",
                               self.cluster.data_dir, "--http", "127.0.0.1:0", name="up")
        self.cluster.node_processes["up"] = up
        return up

    def commands(self) -> list[str]:
        """The commands of weir that run: up, head, node."""
        lines = [command.split(" ") for command in processes_with(self.cluster.mark).values()]
        return [line[1] for line in lines if Path(line[0]).name == "weir" and len(line) > 1]

    def published(self) -> bool:
        return (self.cluster.data_dir / "endpoints.json").exists()

    def expect_end(self, up: Process) -> None:
        # The limit is that for a machine under any load; the processes' own limits add up to less.
        self.assertEqual(up.popen.wait(PATIENCE), 130, self.cluster.output(up))
        poll(lambda: not self.commands(), PATIENCE, lambda: f"left behind: {self.commands()}")

    def test_once_the_head_is_a_process(self):
        up = self.begin()
        poll(lambda: "head" in self.commands(), PATIENCE, "no head")
        up.signal(signal.SIGINT)
        self.expect_end(up)

    def test_once_the_head_has_addresses(self):
        up = self.begin()
        poll(self.published, PATIENCE, "no endpoints")
        up.signal(signal.SIGINT)
        self.expect_end(up)

    def test_once_there_are_nodes(self):
        up = self.begin()
        poll(lambda: "node" in self.commands(), PATIENCE, "no nodes")
        up.signal(signal.SIGINT)
        self.expect_end(up)


if __name__ == "__main__":
    unittest.main()
