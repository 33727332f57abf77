"""The closing line of `make test` counts what the runners' reports say, and takes nothing broken for a pass."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from test import Tally, from_gtest, from_junit, from_playwright, from_vitest, run  # noqa: E402  (needs the path above)


GTEST = """<testsuites><testsuite name="Suite">
    <testcase name="Good" status="run" result="completed" classname="Suite"/>
    <testcase name="Bad" status="run" result="completed" classname="Suite">
      <failure message="a.cpp:7&#x0A;Expected: more" type=""/></testcase>
    <testcase name="Skipped" status="run" result="skipped" classname="Suite"><skipped message="no GPU"/></testcase>
    </testsuite></testsuites>"""


def counts(tally: Tally) -> tuple[int, int, int]:
    return tally.passed, len(tally.failed), len(tally.skipped)


class Reports(unittest.TestCase):
    def test_ctest(self):
        self.assertEqual(counts(from_junit("""<testsuite>
            <testcase name="good" status="run"/>
            <testcase name="bad" status="fail"><failure message=""/></testcase>
            <testcase name="skips itself" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase>
            <testcase name="no program" status="notrun"><skipped message="Unable to find executable: x"/></testcase>
            <testcase name="disabled" status="disabled"><skipped message="Disabled"/></testcase>
            </testsuite>""")), (1, 2, 2))

    def test_gtest(self):
        tally = from_gtest(GTEST)
        self.assertEqual(counts(tally), (1, 1, 1))
        self.assertIn("Suite.Bad\n  a.cpp:7\n  Expected", tally.failed[0])

    def test_programs_of_gtest_under_ctest(self):
        programs = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (programs / "some fail.xml").write_text(GTEST)
        (programs / "ends badly.xml").write_text(GTEST.replace("failure", "properties"))
        self.assertEqual(counts(from_junit("""<testsuite>
            <testcase name="some fail" status="fail"><failure message=""/></testcase>
            <testcase name="ends badly" status="fail"><failure message=""/></testcase>
            <testcase name="crashes" status="fail"><failure message=""/></testcase>
            </testsuite>""", programs)), (1 + 2, 1 + 1 + 1, 1 + 1))

    def test_vitest(self):
        case = {"fullName": "x", "status": "passed"}
        self.assertEqual(counts(from_vitest(json.dumps({"testResults": [
            {"name": "/a.test.ts", "status": "passed", "assertionResults": [case, {**case, "status": "pending"}]},
            {"name": "/b.test.ts", "status": "failed", "assertionResults": [{**case, "status": "failed"}]},
            {"name": "/cannot_load.test.ts", "status": "failed", "message": "no such import", "assertionResults": []},
        ]}))), (1, 2, 1))

    def test_vitest_file_that_fails_in_a_hook(self):
        for message in ({"message": ""}, {"message": " \n"}, {"message": None}, {}):
            tally = from_vitest(json.dumps({"testResults": [
                {"name": "/hook.test.ts", "status": "failed", **message,
                 "assertionResults": [{"fullName": "x", "status": "passed"}]}]}))
            self.assertEqual((tally.passed, tally.failed), (1, ["hook.test.ts: failed outside its tests"]))

    def test_playwright(self):
        def spec(status: str) -> dict:
            return {"file": "a.spec.ts", "title": status, "tests": [{"status": status, "projectName": ""}]}

        nested = {"specs": [spec("expected")], "suites": [{"specs": [spec("flaky"), spec("skipped")]}]}
        report = {"suites": [nested], "errors": [{"message": "the server did not start"}, {"message": ""}]}
        self.assertEqual(counts(from_playwright(json.dumps(report))), (1, 3, 1))


class Runners(unittest.TestCase):
    def outcome(self, script: str) -> Tally:
        report = Path(self.enterContext(tempfile.TemporaryDirectory())) / "report.xml"
        return run("runner", ["sh", "-c", script, "sh", str(report)], ROOT, report, from_junit)

    def test_one_that_dies_without_a_report_fails(self):
        self.assertEqual(counts(self.outcome("exit 3")), (0, 1, 0))

    def test_one_that_reports_no_test_fails(self):
        self.assertEqual(counts(self.outcome('echo "<testsuite/>" > "$1"')), (0, 1, 0))

    def test_one_that_exits_badly_fails_whatever_it_reports(self):
        script = """echo '<testsuite><testcase name="a" status="run"/></testsuite>' > "$1"; exit 1"""
        self.assertEqual(counts(self.outcome(script)), (1, 1, 0))


if __name__ == "__main__":
    unittest.main()
