#!/usr/bin/env python3
"""`make gpu-test`: builds what needs a GPU and tests it on the one of this machine. Needs nvcc, g++, CMake, ninja and a
LibTorch for CUDA (Python's torch, say), no network and no packages: what is not installed comes from build/gpu-kit
(`make gpu-kit`, on a machine with network). Ends in one line: N passed, N failed, N skipped. Figures are JSON lines, on
the way and in build/reports/gpu/figures.jsonl. It takes less than ten minutes: what is not done by then has failed.
"""

import argparse
import concurrent.futures
import contextlib
import ctypes
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KIT = ROOT / "build" / "gpu-kit"
LIBRARIES = ROOT / "build" / "gpu-libraries"  # the kit's, unpacked
BUILD = ROOT / "build" / "cuda"
REPORTS = ROOT / "build" / "reports" / "gpu"
SECONDS = 570  # for everything

PROGRAMS = ("weir", "weir-worker", "gpu_kernels_test", "gpu_coding_test", "gpu_training_test", "gpu_nccl_test",
            "gpu_bench", "gpu_coding_bench", "gpu_exchange_bench")
PARTS = ("kernels", "figures", "coding", "training", "nccl", "jobs", "sanitizers")
SANITIZERS = ("memcheck", "racecheck", "initcheck")
SHARDS = 4  # of the kernels' tests, for each sanitizer


class NoGpu(Exception):
    """A sentence on why there is no GPU to test."""


class Broken(Exception):
    """A sentence on why nothing can be tested."""


@dataclass
class Tally:
    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def add(self, name: str, problem: str | None, skipped: bool = False) -> None:
        """`problem`: null if it passed; why it failed or was skipped otherwise."""
        if problem is None:
            self.passed.append(name)
        else:
            (self.skipped if skipped else self.failed).append(f"{name}: {problem}")
        word = "ok     " if problem is None else "skipped" if skipped else "FAILED "
        print(f"{word} {name}" + ("" if problem is None else f": {problem}"), flush=True)


class Clock:
    """What is left of the ten minutes."""

    def __init__(self, seconds: float):
        self.end = time.monotonic() + seconds

    def left(self, at_most: float) -> float:
        return max(1.0, min(at_most, self.end - time.monotonic()))


def the_gpu() -> str:
    """The architecture of the first GPU, as nvcc names it, asked of the driver itself. Raises NoGpu."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise NoGpu(f"there is no NVIDIA driver (libcuda.so.1 cannot be loaded: {error})") from error
    if (status := driver.cuInit(0)) != 0:
        raise NoGpu(f"the NVIDIA driver does not start (CUDA error {status})")
    count, device, major, minor = (ctypes.c_int() for _ in range(4))
    if driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value < 1:
        raise NoGpu("the NVIDIA driver has no GPU for this process")
    driver.cuDeviceGet(ctypes.byref(device), 0)
    name = ctypes.create_string_buffer(256)
    driver.cuDeviceGetName(name, len(name), device)
    driver.cuDeviceGetAttribute(ctypes.byref(major), 75, device)
    driver.cuDeviceGetAttribute(ctypes.byref(minor), 76, device)
    print(f"== {name.value.decode(errors='replace')}, compute capability {major.value}.{minor.value}", flush=True)
    return f"{major.value}{minor.value}"


def torch_prefix() -> str | None:
    """Where Python's torch has its files for CMake; None: a LibTorch of the system, or CMAKE_PREFIX_PATH, has to do."""
    if importlib.util.find_spec("torch") is None:
        return None
    says = "import torch; print(torch.__version__, torch.utils.cmake_prefix_path)"
    asked = subprocess.run([sys.executable, "-c", says], capture_output=True, text=True)
    if asked.returncode != 0:
        raise Broken(f"Python's torch cannot be imported: {asked.stderr.strip().splitlines()[-1]}")
    version, _, prefix = asked.stdout.strip().partition(" ")
    print(f"== torch {version}", flush=True)
    return prefix


def nccl_folder() -> str | None:
    """Where Python's package nvidia-nccl has the library; None: it is the system's or there is none."""
    with contextlib.suppress(ModuleNotFoundError):
        if (found := importlib.util.find_spec("nvidia.nccl")) is not None:
            for folder in found.submodule_search_locations or []:
                if (Path(folder) / "lib" / "libnccl.so.2").exists():
                    return str(Path(folder) / "lib")
    return None


def unpack() -> Path | None:
    """The kit's libraries in a folder; None: there is no kit, and the system's have to do."""
    packed = KIT / "libraries.tar.xz"
    if not packed.exists():
        return None
    stamp = LIBRARIES / "unpacked"
    if not stamp.exists() or stamp.stat().st_mtime < packed.stat().st_mtime:
        shutil.rmtree(LIBRARIES, ignore_errors=True)
        with tarfile.open(packed) as archive:
            archive.extractall(LIBRARIES, filter="data")
        stamp.touch()
    return LIBRARIES


def run(command: list, log: Path, seconds: float, **environment: str) -> int | None:
    """The exit status of a command whose output goes to a file; None if it was ended for taking longer."""
    with log.open("w") as output:
        process = subprocess.Popen([str(word) for word in command], cwd=ROOT, env={**os.environ, **environment},
                                   stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def last_lines(log: Path, count: int = 15) -> str:
    return "\n".join(log.read_text(errors="replace").strip().splitlines()[-count:])


def build(architecture: str | None, jobs: int, seconds: float) -> None:
    """Configures and builds. Raises Broken with the end of what the failed command said."""
    options = [] if architecture is None else [f"-DCMAKE_CUDA_ARCHITECTURES={architecture}-real"]
    if (kit := unpack()) is not None:
        options.append(f"-DWEIR_KIT={kit}")
    if (prefix := torch_prefix()) is not None:
        options.append(f"-DCMAKE_PREFIX_PATH={prefix}")
    began = time.monotonic()
    for what, command in (("configuring", ["cmake", "--preset", "cuda", *options]),
                          ("building", ["cmake", "--build", BUILD, "-j", jobs, "--target", *PROGRAMS])):
        log = REPORTS / f"{what}.log"
        left = seconds - (time.monotonic() - began)
        status = run(command, log, left)
        if status != 0:
            ended = f"took more than {left:.0f} s" if status is None else f"failed with status {status}"
            raise Broken(f"{what} {ended}:\n{last_lines(log, 40)}")
    print(f"== built in {time.monotonic() - began:.0f} s", flush=True)


def program(name: str) -> Path:
    return BUILD / ("bin" if name.startswith("weir") else "tests") / name


def linking(tally: Tally) -> None:
    """A program starts without CUDA and NCCL, and finds the driver's own library."""
    for name in PROGRAMS:
        log = REPORTS / f"linking_{name}.log"
        status = run([sys.executable, ROOT / "tests" / "cuda" / "linking.py", program(name)], log, 30)
        tally.add(f"linking.{name}", None if status == 0 else last_lines(log))


def googletests(report: dict) -> Iterator[tuple[str, str | None, bool]]:
    """Name, problem and whether it was skipped, of each test in GoogleTest's report."""
    for suite in report["testsuites"]:
        for case in suite["testsuite"]:
            name = f"{suite['name']}.{case['name']}"
            if case.get("failures"):
                yield name, case["failures"][0]["failure"].strip().replace("\n", " | ")[:600], False
            elif case["result"] == "SKIPPED":
                said = case.get("skipped", [{}])[0].get("message", "").strip()
                yield name, said.splitlines()[-1] if said else "by itself", True
            else:
                yield name, None, False


def googletest(tally: Tally, what: str, seconds: float, *arguments: str, **environment: str) -> None:
    """All tests of a program, each by its name."""
    report, log = REPORTS / f"{what}.json", REPORTS / f"{what}.log"
    status = run([program(what), f"--gtest_output=json:{report}", *arguments], log, seconds, **environment)
    try:
        found = list(googletests(json.loads(report.read_text())))
    except (OSError, ValueError, KeyError):
        found = []
    for name, problem, skipped in found:
        tally.add(f"{what}.{name}", problem, skipped)
    if status is None:
        tally.add(what, f"did not end within {seconds:.0f} s:\n{last_lines(log)}")
    elif not found or (status != 0 and not any(problem and not skipped for _, problem, skipped in found)):
        tally.add(what, f"exit status {status}:\n{last_lines(log)}")


def sanitize(tool: str, shard: int, seconds: float) -> str | None:
    """One part of the kernels' tests under one tool of compute-sanitizer."""
    log = REPORTS / f"{tool}_{shard}.log"
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "99", program("gpu_kernels_test"),
               "--gtest_brief=1"]
    status = run(command, log, seconds, GTEST_TOTAL_SHARDS=str(SHARDS), GTEST_SHARD_INDEX=str(shard))
    if status == 0:
        return None
    ended = f"did not end within {seconds:.0f} s" if status is None else f"exit status {status}"
    return f"{ended}:\n{last_lines(log)}"


def sanitizers(tally: Tally, clock: Clock) -> None:
    names = [(tool, shard) for tool in SANITIZERS for shard in range(SHARDS)]
    if shutil.which("compute-sanitizer") is None:
        for tool in SANITIZERS:
            tally.add(f"compute-sanitizer.{tool}", "compute-sanitizer is not installed", skipped=True)
        return
    with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
        seconds = clock.left(150)
        problems = list(pool.map(lambda one: sanitize(*one, seconds), names))
    for (tool, shard), problem in zip(names, problems):
        tally.add(f"compute-sanitizer.{tool}.{shard + 1}_of_{SHARDS}", problem)


def nccl(tally: Tally, clock: Clock) -> None:
    """Two ranks on one GPU, each a process that NCCL takes for one of another host (the program sees to that)."""
    folder = nccl_folder()
    paths = [folder] if folder else []
    environment = {"LD_LIBRARY_PATH": ":".join([*paths, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])}
    for name, chosen in (("two_ranks_on_one_gpu", "-GpuNcclLast.*"),
                         ("a_rank_killed_in_mid_collective", "GpuNcclLast.*")):
        log, seconds = REPORTS / f"nccl_{name}.log", clock.left(120)
        status = run([program("gpu_nccl_test"), "--ranks=2", f"--gtest_filter={chosen}"], log, seconds, **environment)
        ended = f"did not end within {seconds:.0f} s" if status is None else f"exit status {status}"
        tally.add(f"nccl.{name}", None if status == 0 else f"{ended}:\n{last_lines(log, 30)}")


def figures(tally: Tally, clock: Clock) -> list[dict]:
    found: list[dict] = []
    # Of more values all codings would take a minute.
    large = ("int8", "signsgd", "onebit", "topk", "dgc", "qsgd", "terngrad", "powersgd")
    for name, *arguments in (("gpu_bench", "16"), ("gpu_bench", "64"), ("gpu_coding_bench", "16"),
                             ("gpu_coding_bench", "100", *large),
                             ("gpu_exchange_bench", "none", "bf16", "int8", "signsgd", "topk", "dgc", "powersgd")):
        size = [argument for argument in arguments if argument.isdigit()]
        log = REPORTS / ("_".join([name, *size]) + ".log")
        status = run([program(name), *arguments], log, clock.left(60))
        lines = [line for line in log.read_text().splitlines() if line.startswith("{")]
        found += map(json.loads, lines)
        problem = None if status == 0 and lines else f"exit status {status}:\n{last_lines(log)}"
        tally.add(f"figures.{log.stem}", problem)
    return found


def tests_of_jobs(tally: Tally, clock: Clock, on_gpu: bool) -> list[dict]:
    """Jobs through head, node and workers. Without a GPU: those on the processor alone."""
    os.environ["WEIR_BIN_DIR"] = str(BUILD / "bin")
    from gpu_jobs import run_jobs  # reads the variable
    images = KIT / "fashion-mnist"
    return run_jobs(tally.add, clock.left, images if images.is_dir() else None, nccl_folder(), on_gpu)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without-gpu", action="store_true", help="build, and run only what needs no GPU")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="compilers at once")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for everything")
    parser.add_argument("--only", nargs="+", choices=PARTS, help="run these parts alone")
    options = parser.parse_args()
    clock, tally = Clock(options.seconds), Tally()
    try:
        architecture = None if options.without_gpu else the_gpu()
        shutil.rmtree(REPORTS, ignore_errors=True)
        REPORTS.mkdir(parents=True)
        build(architecture, options.jobs, clock.left(options.seconds))
    except NoGpu as none:
        print(f"make gpu-test: there is no GPU to test on: {none}. Nothing was built or run.", file=sys.stderr)
        return 2
    except Broken as broken:
        print(f"make gpu-test: {broken}", file=sys.stderr)
        return 1

    linking(tally)
    found: list[dict] = []
    # What is measured runs alone, and first what the rest rests upon.
    parts: dict[str, Callable[[], list[dict] | None]] = {
        "kernels": lambda: googletest(tally, "gpu_kernels_test", clock.left(120)),
        "figures": lambda: figures(tally, clock),
        "coding": lambda: googletest(tally, "gpu_coding_test", clock.left(60)),
        "training": lambda: googletest(tally, "gpu_training_test", clock.left(120)),
        "nccl": lambda: nccl(tally, clock),
        "jobs": lambda: tests_of_jobs(tally, clock, not options.without_gpu),
        "sanitizers": lambda: sanitizers(tally, clock)}
    for part in ("jobs",) if options.without_gpu else options.only or PARTS:
        found += parts[part]() or []
    lines = "".join(json.dumps(figure) + "\n" for figure in found)
    (REPORTS / "figures.jsonl").write_text(lines)
    print(f"\n{lines}")
    for line in [*(f"skipped: {name}" for name in tally.skipped), *(f"FAILED: {name}" for name in tally.failed)]:
        print(line)
    print(f"{len(tally.passed)} passed, {len(tally.failed)} failed, {len(tally.skipped)} skipped", flush=True)
    return 1 if tally.failed or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main())
