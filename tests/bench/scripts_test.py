"""What the scripts in bench/ make of figures, names and ranks, without a cluster or hosts."""

import argparse
import contextlib
import io
import json
import os
import shutil
import signal
import sys
import tempfile
import unittest
from pathlib import Path
from types import ModuleType
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "scripts")]

import compare  # noqa: E402  (these need the path above)
import dgc  # noqa: E402
import esync  # noqa: E402
import scaling  # noqa: E402
import time_to_accuracy  # noqa: E402
from accuracy_runs import Runs, accuracy_of, mean_over_time  # noqa: E402
from choices import several_of  # noqa: E402
from four_hosts import FourHosts, bits_per_second, complaint  # noqa: E402
from local_cluster import Broken, exit_on_signals  # noqa: E402


class FakeApi:
    """One metric's points [seconds, value]."""

    def __init__(self, points: list[list[float]]):
        self.points = points

    def get(self, path: str) -> dict:
        return {"series": [{"points": [[second, value, value, value] for second, value in self.points]}]}


class Figures(unittest.TestCase):
    def test_mean_over_time(self):
        # Seven steps of 10 ms and one that waits: 256 examples in two seconds.
        steps = [(0.01 * n, 32 / 0.01) for n in range(1, 8)] + [(2, 32 / 1.93)]
        self.assertAlmostEqual(mean_over_time(steps), 8 * 32 / 2)
        self.assertEqual(mean_over_time([]), 0)

    def test_compute_share_of_unequal_points(self):
        # One step of a second that computes all the time, then the mean of three that wait for two thirds of theirs.
        self.assertAlmostEqual(esync.compute_share([(1, 1), (4, 1 / 3)], [(1, 0), (4, 2 / 3)]), (1 + 3 / 3) / 4)

    def test_repeated_evaluation_counts_once(self):
        api = FakeApi([[1.001, 0.5], [2.002, 0.6], [2.002, 0.6]])
        self.assertEqual(accuracy_of(api, "job"), [[1.0, 0.5], [2.0, 0.6]])

    def test_stored_runs_have_each_evaluation_once(self):
        for name in ("esync.jsonl", "time_to_accuracy.jsonl"):
            for run in map(json.loads, (ROOT / "docs" / name).read_text().splitlines()):
                seconds = [second for second, _ in run["accuracy"]]
                self.assertEqual(seconds, sorted(set(seconds)), f"{name}: {run['method']}, seed {run['seed']}")


class EsyncDocument(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(mock.patch.object(esync, "DOCUMENT", self.folder / "esync.md"))
        self.enterContext(mock.patch.object(esync, "IMAGES", self.folder / "images"))
        self.runs = Runs(self.folder / "runs.jsonl", ("method", "partition", "seed", "rate"))

    def add(self, seed: int, partition: str = "iid", **figures: object) -> None:
        self.runs.add({"method": "local_sgd", "partition": partition, "seed": seed, "rate": 0.05,
                       "accuracy": [[10, 0.7], [20, 0.8], [30, 0.8]], "steps": 70, "megabytes_per_second": 1,
                       "compute_shares": [0.5] * 6, **figures})

    def test_choices_of_rates_do_not_replace_the_document(self):
        esync.DOCUMENT.write_text("earlier")
        self.add(esync.SEED_OF_CHOICE)
        esync.write_document(self.runs)
        self.assertEqual(esync.DOCUMENT.read_text(), "earlier")

    def test_one_partition_alone(self):
        for seed in (esync.SEED_OF_CHOICE, 1):
            self.add(seed, "by_class", mean_samples_per_second=500)
        esync.write_document(self.runs)
        self.assertIn("| 500 |", esync.DOCUMENT.read_text())
        self.assertNotIn(esync.COUNTED, esync.DOCUMENT.read_text())

    def test_samples_of_earlier_runs_are_counted(self):
        for seed in (esync.SEED_OF_CHOICE, 1):
            self.add(seed, samples_per_second=4000)
        esync.write_document(self.runs)
        self.assertIn(f"| {70 * 6 * 32 / 30:,.0f} |", esync.DOCUMENT.read_text())
        self.assertIn(esync.COUNTED, esync.DOCUMENT.read_text())


class NothingLeft(unittest.TestCase):
    """What has been run is not run again: with nothing left no cluster starts, which may need root, and what is known
    is written."""

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "docs").mkdir()

    def starts(self, script: ModuleType, cluster: str, runs: list[dict], *arguments: str) -> bool:
        """Whether the script does when these are the runs of before. It gets no cluster."""
        name = script.__name__
        (self.folder / "docs" / f"{name}.jsonl").write_text("".join(json.dumps(run) + "\n" for run in runs))
        places = {"ROOT": self.folder, "DOCUMENT": self.folder / "docs" / f"{name}.md", "IMAGES": self.folder / "docs"}
        self.said = io.StringIO()
        with mock.patch.multiple(script, **{place: path for place, path in places.items() if hasattr(script, place)}), \
             mock.patch.object(script, cluster, side_effect=Broken("refused")) as started, \
             mock.patch.object(script, "exit_on_signals"), mock.patch.object(sys, "argv", [name, *arguments]), \
             contextlib.redirect_stdout(self.said), contextlib.redirect_stderr(io.StringIO()), \
             contextlib.suppress(Broken):
            script.main()
        return started.called

    def document(self, name: str) -> str:
        return (self.folder / "docs" / f"{name}.md").read_text()

    def test_esync(self):
        figures = {"partition": "iid", "accuracy": [[10, 0.7], [20, 0.8], [30, 0.8]], "steps": 70,
                   "megabytes_per_second": 1, "mean_samples_per_second": 500, "compute_shares": [0.5] * 6}
        choices = [{"method": method, "seed": esync.SEED_OF_CHOICE, "rate": rate, **figures}
                   for method in esync.METHODS if method not in esync.RATE_LIKE for rate in esync.RATES]
        run = {"method": "sync", "seed": 1, "rate": esync.RATES[0], **figures}
        starts = lambda runs, *more: self.starts(esync, "Cluster", runs, "--methods", "sync", "--partitions", "iid",
                                                 "--seeds", "1", *more)
        self.assertFalse(starts([*choices, run]))
        self.assertIn("| sync |", self.document("esync"))
        self.assertTrue(starts(choices))
        self.assertTrue(starts([*choices[1:], run]))
        self.assertTrue(starts([*choices, run | {"rate": esync.RATES[1]}]))
        self.assertTrue(starts([*choices, run], "--again"))

    def test_time_to_accuracy(self):
        run = {"model": "lenet", "rate": "1gbit", "method": "none", "seed": 1, "accuracy": [[10, 0.7], [20, 0.8]],
               "steps": 70, "megabytes_sent_per_step": 1}
        starts = lambda runs: self.starts(time_to_accuracy, "FourHosts", runs, "--models", "lenet", "--rates", "1gbit",
                                          "--methods", "none")
        with mock.patch.object(time_to_accuracy, "complaint", return_value="not here") as complains:
            self.assertFalse(starts([run]))
            self.assertIn("| none |", self.document("time_to_accuracy"))
            with self.assertRaisesRegex(SystemExit, "not here"):
                starts([run | {"seed": 2}])
            complains.return_value = None
            self.assertTrue(starts([run | {"seed": 2}]))

    def test_compare(self):
        figures = {"accuracy": 0.75, "bytes_sent_per_step": 1000, "times_smaller": 2, "step_seconds_p50": 0.01,
                   "encode_seconds_p50": 0, "decode_seconds_p50": 0, "wait_seconds_p50": 0}
        of_bf16 = {"model": "lenet", "compressor": "bf16", "memory": "none", "metrics": figures}
        rates = compare.TRAININGS["lenet"].rates
        choices = [of_bf16 | {"lr": rate, "seed": compare.CHOOSING_SEED} for rate in rates]
        run = of_bf16 | {"lr": rates[0], "seed": 1}
        catalog = {"bf16": {"name": "bf16", "default_memory": "none", "traits": {"votes": False}}}
        starts = lambda runs, *more: self.starts(compare, "Cluster", runs, "--models", "lenet", "--seeds", "1", *more)
        with mock.patch.object(compare, "compressors_of_build", return_value=catalog):
            self.assertFalse(starts([*choices, run]))
            self.assertIn("| `bf16` | `none` | 0.01 | 75.0 |", self.document("compare"))
            self.assertTrue(starts(choices))
            self.assertTrue(starts([*choices[1:], run]))
            self.assertTrue(starts([*choices, run | {"lr": rates[1]}]))
            self.assertTrue(starts([*choices, run], "--again"))

    def test_dgc(self):
        run = {"case": "wide", "method": "none", "seed": 1, "accuracy": 0.8125}
        starts = lambda runs: self.starts(dgc, "Cluster", runs, "--cases", "wide", "--methods", "none", "--seeds", "1",
                                          "--runs", str(self.folder / "docs" / "dgc.jsonl"))
        self.assertFalse(starts([run]))
        self.assertIn("81.25", self.said.getvalue())
        self.assertTrue(starts([run | {"seed": 2}]))


class Scaling(unittest.TestCase):
    """`worker` is a program that prints rows instead of weir-worker."""

    def run_scaling(self, rows: str, *arguments: str) -> tuple[int, str]:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "build").mkdir()
        worker = folder / "worker"
        worker.write_text(f"#!/bin/sh\necho '{rows}'\n")
        worker.chmod(0o755)
        self.kept = folder / "kept.jsonl"
        self.kept.write_text("earlier")
        places = {"ROOT": folder, "ROWS": self.kept, "NEW_ROWS": folder / "build" / "new.jsonl", "WORKER": worker}
        said = io.StringIO()
        with mock.patch.multiple(scaling, **places), mock.patch.object(sys, "argv", ["scaling.py", *arguments]), \
             contextlib.redirect_stderr(said):
            return scaling.main(), said.getvalue()

    def test_part_of_the_rows_stays_in_build(self):
        code, said = self.run_scaling('{"name": "mlp/8/10gbit/1ms"}', "--filter", "^mlp/8/")
        self.assertEqual(code, 0)
        self.assertIn("build/new.jsonl", said)
        self.assertEqual(self.kept.read_text(), "earlier")

    def test_rows_without_a_cell_are_refused(self):
        code, said = self.run_scaling('{"name": "costs/memory"}')
        self.assertEqual(code, 1)
        self.assertIn("no cell", said)
        self.assertEqual(self.kept.read_text(), "earlier")


class Names(unittest.TestCase):
    def test_several(self):
        self.assertEqual(several_of(["a", "b"])("b,a"), ["b", "a"])
        self.assertEqual(several_of({"a, x": 1, "b": 2}, ";")("a, x; b"), ["a, x", "b"])
        with self.assertRaisesRegex(argparse.ArgumentTypeError, "c; there are a, b"):
            several_of(["a", "b"])("a,c")

    def test_rates(self):
        self.assertIsNone(bits_per_second("none"))
        self.assertEqual([bits_per_second(rate) for rate in ("500kbit", "1.5mbit", "1gbit")], [5e5, 1.5e6, 1e9])
        for wrong in ("fast", "10", "10bit", "mbit"):
            with self.assertRaises(ValueError):
                bits_per_second(wrong)

    def test_missing_data_is_said(self):
        with mock.patch("os.geteuid", return_value=0), mock.patch.object(shutil, "which", return_value="/bin/true"), \
             mock.patch("four_hosts.BIN", mock.MagicMock()):
            self.assertIn("no Fashion-MNIST in /nowhere", complaint([], data=Path("/nowhere")) or "")
            self.assertIsNone(complaint([]))


class FakeHosts:
    """Ranks that are Python programs on this host."""

    def __init__(self, *programs: str):
        self.programs = programs

    def rank_commands(self, command: list, together: bool) -> list[list[str]]:
        return [[sys.executable, "-c", program] for program in self.programs]


class Leaving(unittest.TestCase):
    def test_hosts_and_folder_go_though_the_cluster_does_not_end_well(self):
        hosts = FourHosts()
        hosts.hosts = mock.Mock()
        with mock.patch.object(hosts.cluster, "close", side_effect=OSError), self.assertRaises(OSError):
            hosts.__exit__()
        hosts.hosts.remove.assert_called_once()
        self.assertFalse(hosts.cluster.folder.exists())


class Ranks(unittest.TestCase):
    WAITS = "import signal; signal.pause()"

    def run_ranks(self, *programs: str) -> list[dict]:
        return FourHosts.run_ranks(FakeHosts(*programs), ["program"])

    def assert_all_gone(self):
        with self.assertRaises(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)

    def test_rows_of_rank_0(self):
        self.assertEqual(self.run_ranks("print('{\"a\": 1}')", "print('{\"a\": 2}')"), [{"a": 1}])
        self.assert_all_gone()

    def test_a_failed_rank_ends_the_others(self):
        with self.assertRaisesRegex(SystemExit, "rank 1 of program:\nbroken"):
            self.run_ranks(self.WAITS, "import sys; sys.exit('broken')", self.WAITS)
        self.assert_all_gone()

    def test_an_interruption_ends_all(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            self.addCleanup(signal.signal, number, signal.getsignal(number))
        exit_on_signals()
        # Not before both ranks are known, which two threads read from then.
        interrupts = ("import os, signal\nwhile len(os.listdir(f'/proc/{os.getppid()}/task')) < 3: pass\n"
                      f"os.kill(os.getppid(), signal.SIGTERM)\n{self.WAITS}")
        with self.assertRaises(SystemExit):
            self.run_ranks(self.WAITS, interrupts)
        self.assert_all_gone()


if __name__ == "__main__":
    unittest.main()
