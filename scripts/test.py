#!/usr/bin/env python3
"""Runs every test of a built tree and ends in one line: N passed, N failed, N skipped.

The three runners (ctest, vitest, Playwright) print as they go; what counts is what they wrote to their report files, so
a runner that dies without a report is a failure too. To ctest a GoogleTest program is one test: what became of the
tests in it is in a report of its own, of the name that ctest knows it by.
"""

import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "release"
GTEST_REPORTS = BUILD / "tests" / "reports"
REPORTS = ROOT / "build" / "reports"
DASHBOARD = ROOT / "dashboard"


@dataclass
class Tally:
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped


def from_gtest(text: str) -> Tally:
    """GoogleTest's XML file. What is said of a failure begins with its file and line."""
    tally = Tally()
    for case in ElementTree.fromstring(text).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        failure = case.find("failure")
        if failure is not None:
            tally.failed.append(f"{name}\n  " + failure.get("message", "").replace("\n", "\n  "))
        elif case.get("result") == "completed":
            tally.passed += 1
        else:
            tally.skipped.append(name)
    return tally


def from_junit(text: str, programs: Path = GTEST_REPORTS) -> Tally:
    """ctest's JUnit file. "notrun" covers both tests that skipped themselves and programs that could not be started.

    For a program with a report in the folder `programs` its tests are counted; a program that fails without a failure
    in its report, or without a report, has failed itself.
    """
    tally = Tally()
    for case in ElementTree.fromstring(text).iter("testcase"):
        name, status = case.get("name", "?"), case.get("status")
        skipped = case.find("skipped")
        passed = status == "run" and case.find("failure") is None
        report = programs / f"{name}.xml"
        if report.exists():
            tests = from_gtest(report.read_text())
            tally.add(tests)
            if not passed and not tests.failed:
                tally.failed.append(name)
        elif passed:
            tally.passed += 1
        elif status in ("notrun", "disabled") and skipped is not None and (
            status == "disabled" or skipped.get("message", "").startswith("SKIP_")
        ):
            tally.skipped.append(name)
        else:
            tally.failed.append(name)
    return tally


def from_vitest(text: str) -> Tally:
    """vitest's JSON file. A test file that cannot be loaded, or fails in a hook, has a status of its own."""
    tally = Tally()
    for suite in json.loads(text)["testResults"]:
        file = Path(suite["name"]).name
        for case in suite["assertionResults"]:
            name = f"{file}: {case['fullName']}"
            if case["status"] == "passed":
                tally.passed += 1
            elif case["status"] in ("pending", "skipped", "todo", "disabled"):
                tally.skipped.append(name)
            else:
                tally.failed.append(name)
        if suite["status"] == "failed" and not any(c["status"] == "failed" for c in suite["assertionResults"]):
            message = (suite.get("message") or "").strip() or "failed outside its tests"
            tally.failed.append(f"{file}: {message.splitlines()[0]}")
    return tally


def from_playwright(text: str) -> Tally:
    """Playwright's JSON file. A test that passed only when repeated counts as failed; so do errors outside tests."""
    tally = Tally()
    report = json.loads(text)

    def walk(suite: dict) -> None:
        for spec in suite.get("specs", []):
            for test in spec["tests"]:
                name = f"{spec['file']}: {spec['title']} [{test.get('projectName', '')}]"
                if test["status"] == "expected":
                    tally.passed += 1
                elif test["status"] == "skipped":
                    tally.skipped.append(name)
                else:
                    tally.failed.append(name)
        for child in suite.get("suites", []):
            walk(child)

    for suite in report["suites"]:
        walk(suite)
    for error in report.get("errors", []):
        tally.failed.append("playwright: " + (error.get("message") or "error outside a test").splitlines()[0])
    return tally


def run(what: str, command: list[str], cwd: Path, report: Path, read, **environment: str) -> Tally:
    print(f"\n== {what}", flush=True)
    environment = {**os.environ, "WEIR": str(BUILD / "bin" / "weir"), **environment}
    status = subprocess.run(command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL).returncode
    try:
        tally = read(report.read_text())
    except (OSError, ValueError, KeyError, ElementTree.ParseError) as error:
        return Tally(failed=[f"{what}: no usable report ({error})"])
    if status != 0 and not tally.failed:
        tally.failed.append(f"{what}: exit status {status}")
    if not tally.passed and not tally.failed:
        tally.failed.append(f"{what}: no test ran")
    return tally


def main() -> int:
    shutil.rmtree(REPORTS, ignore_errors=True)
    shutil.rmtree(GTEST_REPORTS, ignore_errors=True)
    REPORTS.mkdir(parents=True)
    jobs = str(os.cpu_count() or 1)
    tally = Tally()
    junit, vitest, playwright = REPORTS / "ctest.xml", REPORTS / "vitest.json", REPORTS / "playwright.json"
    tally.add(run(
        "C++ and system tests (ctest)",
        ["ctest", "--test-dir", str(BUILD), "-j", jobs, "--output-on-failure", "--output-junit", str(junit)],
        ROOT, junit, from_junit))
    tally.add(run(
        "dashboard units (vitest)",
        ["node_modules/.bin/vitest", "run", "--reporter=default", "--reporter=json", f"--outputFile.json={vitest}"],
        DASHBOARD, vitest, from_vitest))
    tally.add(run(
        "browser against a real cluster (Playwright)",
        ["node_modules/.bin/playwright", "test", "--reporter=list,json"],
        DASHBOARD, playwright, from_playwright,
        PLAYWRIGHT_JSON_OUTPUT_NAME=str(playwright)))

    print()
    for name in tally.skipped:
        print(f"skipped: {name}")
    for name in tally.failed:
        print(f"FAILED: {name}")
    print(f"{tally.passed} passed, {len(tally.failed)} failed, {len(tally.skipped)} skipped", flush=True)
    return 1 if tally.failed or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main())
