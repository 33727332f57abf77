"""What `make gpu-test` says where there is no GPU, and how it counts."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import gpu_test  # noqa: E402  (needs the path above)


class Driver:
    """A libcuda.so.1 that answers so."""

    def __init__(self, starts: int, count: int):
        self.starts, self.count = starts, count

    def cuInit(self, _flags):  # as CUDA names it
        return self.starts

    def cuDeviceGetCount(self, count):
        count._obj.value = self.count
        return 0


class WithoutGpu(unittest.TestCase):
    def said(self, driver) -> str:
        with mock.patch("ctypes.CDLL", side_effect=driver if isinstance(driver, OSError) else lambda _name: driver), \
                mock.patch.object(sys, "argv", ["gpu_test.py"]), contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(gpu_test.main(), 2)
        return said.getvalue()

    def test_says_why_and_fails(self):
        self.assertIn("there is no GPU to test on: there is no NVIDIA driver (libcuda.so.1", self.said(OSError("none")))
        self.assertIn("the NVIDIA driver does not start (CUDA error 803)", self.said(Driver(803, 0)))
        self.assertIn("has no GPU for this process. Nothing was built", self.said(Driver(0, 0)))


class Counting(unittest.TestCase):
    def test_googletests_report(self):
        cases = [{"name": "Good", "result": "COMPLETED"},
                 {"name": "Bad", "result": "COMPLETED", "failures": [{"failure": "a\nb"}]},
                 {"name": "Not", "result": "SKIPPED", "skipped": [{"message": "x.cpp:1\nno reason"}]},
                 {"name": "Old", "result": "SKIPPED"}]
        found = list(gpu_test.googletests({"testsuites": [{"name": "S", "testsuite": cases}]}))
        self.assertEqual(found, [("S.Good", None, False), ("S.Bad", "a | b", False), ("S.Not", "no reason", True),
                                 ("S.Old", "by itself", True)])

    def test_a_program_without_a_report_has_failed(self):
        for command, problem in (("exit 0", "exit status 0"), ("exit 3", "exit status 3")):
            with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()), \
                    mock.patch.object(gpu_test, "REPORTS", Path(folder)), \
                    mock.patch.object(gpu_test, "program", lambda _name: Path(folder) / "program"):
                (Path(folder) / "program").write_text(f"#!/bin/sh\n{command}\n")
                (Path(folder) / "program").chmod(0o755)
                tally = gpu_test.Tally()
                gpu_test.googletest(tally, "program", 60)
            self.assertEqual((tally.passed, len(tally.failed)), ([], 1))
            self.assertIn(problem, tally.failed[0])

    def test_a_command_that_does_not_end_is_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log"
            self.assertIsNone(gpu_test.run(["tail", "-f", "/dev/null"], log, 0.2))
            self.assertEqual(gpu_test.run(["sh", "-c", "echo $WEIR_SAID; exit 4"], log, 60, WEIR_SAID="so"), 4)
            self.assertEqual(gpu_test.last_lines(log), "so")


if __name__ == "__main__":
    unittest.main()
