"""`weir bench`: every measurement runs and prints rows whose figures fit each other, whatever the machine's speed."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from cluster import BIN, PATIENCE, ROOT, Process, SystemTest
from weir_api import poll

ENTRIES = 4096 * 4096


class Bench(SystemTest):
    def rows(self, name: str, pattern: str) -> dict[str, dict]:
        done = self.cluster.run("--json", "bench", name, "--filter", pattern, seconds=1500)
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

    def test_coded_step_over_hops(self):
        rows = self.rows("exchange", "^coded_step/multi_hop/shared_memory/2")
        self.assertIn("coded over multi_hop", rows["coded_step"]["metrics"]["routes"])

    def test_exchange(self):
        rows = self.rows(
            "exchange", "^(all_gather/ring/tcp/2/64000|dense_step/auto/tcp/2/256000|coded_step/two_hop/shared_memory/2)"
        )
        self.assertEqual(list(rows), ["all_gather", "dense_step", "coded_step"])
        sent = {name: row["metrics"]["bytes_sent"] for name, row in rows.items()}
        self.assertEqual(sent["all_gather"], 64_000 + 64, "one payload, and the header of its frame")
        half_twice = 256_000  # packed where the line seems slow
        self.assertLess(0.75 * half_twice, sent["dense_step"], "a sum over two ranks sends half of the array twice")
        self.assertLess(sent["coded_step"], 25_600_000 / 100)
        routes = {name: row["metrics"]["routes"] for name, row in rows.items()}
        self.assertIn("float32 over ", routes["dense_step"], "the plan that auto has settled on")
        self.assertIn("coded over two_hop", routes["coded_step"])
        for row in rows.values():
            for what in ("seconds_p50", "seconds_p99", "line_rate_share", "stream_seconds_p50"):
                self.assertLess(0, row["metrics"][what])

    def test_scaling(self):
        rows = self.rows("scaling", "^mlp/8/10gbit/1ms$")
        cell = rows.pop("mlp/8/10gbit/1ms")
        self.assertEqual(len(rows), 8, "memory, and seven compressors")
        self.assertEqual(rows["costs/mlp/bf16"]["metrics"]["payload_bytes"], 2 * (784 + 10 + 1) * 13424,
                         "the matrices, and the bias that is long enough")
        ways = cell["metrics"]["ways"]
        # Two matrices and two vectors, which no topology moves in less time than their bytes take at a port.
        least = 2 * 7 / 8 * 10_672_090 * 4 * 8e-10
        self.assertLess(least, ways["none"]["fixed"]["seconds"])
        for way in ways.values():
            self.assertTrue(way["fixed"]["simulated"])
            self.assertLess(cell["case"]["compute_seconds"], way["fixed"]["seconds"])
            self.assertLess(way["auto_over_best_choice"], 1.5)

    def test_schedule(self):
        rows = self.rows("schedule", "^validate$")
        self.assertEqual(list(rows), ["validate"])
        self.assertEqual(rows["validate"]["case"], {"nodes": 150, "queued": 200})
        metrics = rows["validate"]["metrics"]
        self.assertLess(0, metrics["p50_ms"])
        self.assertLessEqual(metrics["p50_ms"], metrics["p99_ms"])
        self.assertLessEqual(metrics["disk_p50_ms"], metrics["disk_p99_ms"])

    def test_stopped_schedule_leaves_no_files(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        environment = {**self.cluster.environment, "TMPDIR": str(folder)}
        bench = Process([BIN / "weir", "bench", "schedule", "--filter", "^submit$"], self.cluster.folder / "bench.log",
                        environment)
        self.addCleanup(bench.kill)
        poll(lambda: list(folder.glob("weir-bench-*/weir.db")), PATIENCE, "no head")
        self.assertEqual(bench.stop(), 128 + signal.SIGTERM)
        self.assertEqual(list(folder.iterdir()), [])

    def test_train_of_one_step(self):
        done = subprocess.run([BIN / "weir-worker", "bench", "train", "--json", "--filter", "^none$", "--steps", "1",
                               "--warmup", "0"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = {row["name"]: row["metrics"] for row in map(json.loads, done.stdout.splitlines())}
        self.assertEqual(list(rows), ["compute alone", "none"])
        for metrics in rows.values():
            self.assertLess(0, metrics["step_seconds_p50"])
            self.assertEqual(metrics["step_seconds_p50"], metrics["step_seconds_p99"])
        self.assertLess(0, rows["none"]["sent_bytes_per_step"])

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

    def test_variance(self):
        rows = self.rows("variance", "^qsgd, bits 4$")
        self.assertEqual(list(rows), ["qsgd, bits 4", "atomo svd, bytes of qsgd, bits 4",
                                      "atomo entrywise, bytes of qsgd, bits 4"])
        repetitions = rows["qsgd, bits 4"]["case"]["repetitions"]
        for row in rows.values():
            metrics = row["metrics"]
            self.assertLess(0.8, metrics["bytes"] / rows["qsgd, bits 4"]["metrics"]["bytes"])
            self.assertLess(metrics["bytes"] / rows["qsgd, bits 4"]["metrics"]["bytes"], 1.25)
            self.assertLess(0, metrics["relative_variance"])
            # Without bias the mean of so many is off by chance only.
            by_chance = (metrics["relative_variance"] / repetitions) ** 0.5
            self.assertLess(metrics["relative_distance_of_mean"], 1.3 * by_chance)

    def test_all_reduce(self):
        with contextlib.ExitStack() as held:
            # Bound but not listening until the end: the ranks may bind them too, and nobody is given them by chance.
            ports = [held.enter_context(socket.socket()) for _ in range(3)]
            for port in ports:
                port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                port.bind(("127.0.0.1", 0))
            peers = ",".join(f"127.0.0.1:{port.getsockname()[1]}" for port in ports)
            command = [BIN / "weir-worker", "bench", "all-reduce", "--json", "--peers", peers, "--bytes", "300000",
                       "--rounds", "4", "--rank"]
            ranks = [subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                     for rank in range(3)]
            outputs = [rank.communicate(timeout=1500) for rank in ranks]
        for rank, (out, error) in zip(ranks, outputs):
            self.assertEqual(rank.returncode, 0, error)
            rows = {row["name"]: row for row in map(json.loads, out.splitlines())}
            self.assertIn("tree", rows)
            self.assertNotIn("butterfly", rows, "for powers of two only")
            ring = rows["ring"]
            self.assertEqual(ring["case"], {"ranks": 3, "bytes": 300000, "rounds": 4})
            self.assertLess(abs(ring["metrics"]["sent_bytes"] / 400000 - 1), 0.01, "two thirds of the array, twice")
            self.assertLess(0, ring["metrics"]["seconds_p50"])

    def test_a_filter_that_is_no_regular_expression(self):
        for name in ("compressors", "exchange", "gathering", "train", "all-reduce", "scaling", "variance"):
            options = ["--bytes", "4"] if name == "all-reduce" else []
            done = subprocess.run([BIN / "weir-worker", "bench", name, *options, "--filter", "("],
                                  capture_output=True, text=True)
            self.assertGreater(done.returncode, 0, name)  # below zero: a signal has ended it
            self.assertEqual(done.stdout, "", name)
            self.assertIn("'(' is no regular expression", done.stderr, name)
        done = self.cluster.run("bench", "actors", "--filter", "(")
        self.assertEqual(done.returncode, 2)
        self.assertIn("'(' is no regular expression", done.stderr)

    def test_all_reduce_without_peers(self):
        done = subprocess.run([BIN / "weir-worker", "bench", "all-reduce", "--bytes", "4", "--rank", "0"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--peers", done.stderr)


class HostsTable(unittest.TestCase):
    """bench/hosts.py without the hosts."""

    def run_hosts(self, *arguments: str, rows: list[dict] = []) -> subprocess.CompletedProcess:
        with tempfile.NamedTemporaryFile("w") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
            file.flush()
            command = [sys.executable, ROOT / "bench" / "hosts.py", *arguments, *([file.name] if rows else [])]
            return subprocess.run(command, capture_output=True, text=True)

    def test_table_of_medians(self):
        def row(bench: str, name: str, seconds: float, **case) -> dict:
            return {"bench": bench, "name": name, "case": case, "metrics": {"seconds_p50": seconds}, "rate": "1gbit"}

        steps = [row("jobs", "dgc", s, model="lenet", topology="ring") for s in (0.9, 0.22, 0.1)]
        sums = [row("all-reduce", name, seconds, place="hosts", bytes=1_000_000)
                for name, seconds in (("ring", 0.016), ("gloo", 0.02))]
        done = self.run_hosts("--table", rows=[*steps, row("alone", "weir alone", 0.2, model="lenet"),
                                               row("ddp", "ddp", 0.4, model="lenet"), *sums])
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = {line[:34].strip(): line[34:].split() for line in done.stdout.splitlines()}
        self.assertEqual(lines["dgc, ring"], ["220.0", "ms", "1.100", "0.550"])
        # Each of four ranks sends one and a half times the array: 12 Mbit in 16 ms are three quarters of 1 Gbit/s.
        self.assertEqual(lines["ring"], ["16.000", "ms", "0.750", "0.750", "1.25"])

    def test_rates(self):
        done = self.run_hosts("--rates", "500kbit,3furlongs")
        self.assertEqual(done.returncode, 2)
        self.assertIn("3furlongs is no rate", done.stderr)

    def test_what_is_missing_is_said(self):
        done = self.run_hosts("--what", "jobs,nonsense")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nonsense", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, "a sentence and no trace")


if __name__ == "__main__":
    unittest.main()
