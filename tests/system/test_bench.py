"""`weir bench`: every measurement runs and prints rows whose figures fit each other, whatever the machine's speed."""

import json
import unittest

from cluster import SystemTest

ENTRIES = 4096 * 4096


class Bench(SystemTest):
    def rows(self, name: str, pattern: str) -> dict[str, dict]:
        done = self.cluster.run("--json", "bench", name, "--filter", pattern)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        for row in rows:
            self.assertEqual(row["bench"], name)
        return {row["name"]: row for row in rows}

    def test_actors(self):
        rows = self.rows("actors", "^1:1 sync$")
        self.assertEqual(list(rows), ["1:1 sync"])
        metrics = rows["1:1 sync"]["metrics"]
        self.assertLessEqual(0, metrics["tcp_rtt_p50_us"])
        self.assertLessEqual(metrics["p50_us"], metrics["p99_us"])
        # One call after the other: their mean is what the rate says, and no median is above twice the mean.
        self.assertLessEqual(metrics["calls_per_second"] * metrics["p50_us"] / 1e6, 2)

    def test_compressors(self):
        rows = self.rows("compressors", "^(none|bf16|signsgd)$")
        self.assertEqual(sorted(rows), ["bf16", "none", "signsgd"])
        sizes = {name: row["metrics"]["wire_bytes"] for name, row in rows.items()}
        self.assertEqual(sizes["none"], 4 * ENTRIES)
        self.assertEqual(sizes["bf16"], 2 * ENTRIES)
        self.assertLessEqual(0, sizes["signsgd"] - ENTRIES // 8)
        self.assertLess(sizes["signsgd"] - ENTRIES // 8, 100, "a header beside one bit per entry")
        self.assertEqual(rows["none"]["metrics"]["relative_error"], 0)
        self.assertLess(0, rows["bf16"]["metrics"]["relative_error"])
        self.assertLess(rows["bf16"]["metrics"]["relative_error"], 2**-8, "half of a unit in the last of eight bits")
        for row in rows.values():
            for what in ("encode_seconds", "decode_seconds", "memcpy_seconds"):
                self.assertLess(0, row["metrics"][what])
                self.assertLessEqual(row["metrics"][what], row["metrics"][what + "_p99"])

    def test_schedule(self):
        rows = self.rows("schedule", "^validate$")
        self.assertEqual(list(rows), ["validate"])
        self.assertEqual(rows["validate"]["case"], {"nodes": 150, "queued": 200})
        metrics = rows["validate"]["metrics"]
        self.assertLess(0, metrics["p50_ms"])
        self.assertLessEqual(metrics["p50_ms"], metrics["p99_ms"])
        self.assertLessEqual(metrics["disk_p50_ms"], metrics["disk_p99_ms"])

    def test_train(self):
        rows = self.rows("train", "^(none|dgc)$")
        self.assertEqual(list(rows), ["compute alone", "none", "dgc"])
        sent = {name: row["metrics"]["sent_bytes_per_step"] for name, row in rows.items()}
        ranks = rows["none"]["case"]["ranks"]
        ring = 2 * (ranks - 1) / ranks * 4 * 431_080
        self.assertEqual(sent["compute alone"], 0)
        self.assertLess(abs(sent["none"] / ring - 1), 0.01, "a dense ring all-reduce of LeNet's parameters")
        self.assertLess(sent["dgc"], ring / 50)
        self.assertEqual(rows["compute alone"]["metrics"]["over_compute_alone"], 1)
        for row in rows.values():
            self.assertLess(0, row["metrics"]["step_seconds_p50"])
            self.assertLessEqual(row["metrics"]["step_seconds_p50"], row["metrics"]["step_seconds_p99"])


if __name__ == "__main__":
    unittest.main()
