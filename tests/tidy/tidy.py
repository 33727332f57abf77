#!/usr/bin/env python3
"""Rules of the sources that no compiler checks. Prints `path:line: rule: what` for each breach; exits 1 on any.

Each rule is a function from a Tree (every source file's text) to problems, listed in RULES; tidy_test.py shows for each
that it catches what it is for and leaves its look-alikes alone.
"""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterator

from cpp_text import capturing_lambda_coroutines, code_only, line_of

ROOT = Path(__file__).resolve().parent.parent.parent

# What each folder may include of the others; `tests` may include all.
MAY_INCLUDE = {
    "base": set(),
    "runtime": {"base"},
    "protocol": {"base", "runtime"},
    "collectives": {"base"},
    "cuda": {"base", "collectives"},
    "compressors": {"base", "protocol", "cuda"},
    "training": {"base", "protocol", "collectives", "compressors"},
    "actors": {"base", "runtime", "protocol", "collectives", "compressors", "training"},
    "cluster": {"base", "runtime", "protocol"},
    "api": {"base", "runtime", "protocol", "cluster"},
    "bench": {"base", "runtime", "protocol", "collectives", "compressors", "training", "cluster"},
    "worker": {"base", "runtime", "protocol", "collectives", "compressors", "training", "actors", "bench"},
    "cli": {"base", "runtime", "protocol", "cluster", "api", "bench"},
}
MAY_USE_TORCH = {"compressors", "training", "actors", "bench", "worker"}
# What a folder may include beside that: files of their own library, which needs neither LibTorch nor CUDA.
MAY_INCLUDE_FILES = {"cli": {"training/shapes.hpp", "cuda/nvml.hpp", "cuda/nccl_library.hpp"},
                     "cluster": {"cuda/nvml.hpp"}, "training": {"cuda/nccl.hpp", "cuda/nvml.hpp"},
                     "worker": {"cuda/nccl_library.hpp"}}
# No include path leads from these to LibTorch: they are linked into `weir`.
FREE_OF_TORCH = {"training/shapes.cpp"}
# Headers of CUDA's toolkit and of NCCL, and those of LibTorch that include them, which only a LibTorch with CUDA has.
# Who may include them: in cuda/ not what others include; and cuda/ may not use LibTorch.
CUDA_HEADER = (r"(?:cuda|cublas|cufft|curand|nvtx3/|thrust/|cub/|cooperative_groups)\w*.*[.](?:h|cuh)|nccl[.]h|"
               r"(?:c10|ATen|torch)/(?:\w+/)*cuda/.*[.](?:h|cuh)")
MAY_USE_CUDA = r"cuda/.*[.](?:cpp|cu|cuh)|tests/cuda/emulator/.*"

# Of the standard library's algorithms those that are in use or likely to be.
ALGORITHMS = (
    "adjacent_find all_of any_of binary_search clamp copy copy_if copy_n count count_if equal fill fill_n find find_if "
    "for_each generate includes is_sorted lower_bound max max_element min min_element minmax mismatch none_of "
    "nth_element partition partition_point remove_if replace reverse rotate shuffle sort stable_sort transform unique "
    "upper_bound").split()

LINE_COLUMNS_MAX = 120
FILE_LINES_MAX = 600


@dataclass(frozen=True)
class Problem:
    path: str
    line: int
    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.what}"


class Tree:
    """Every source file by its path from the root. `code` is C++ with comments and literals blanked, lines kept."""

    def __init__(self, files: dict[str, str]):
        self.files = files
        self.code = {path: code_only(text) for path, text in files.items() if is_cpp(path)}

    def matches(self, pattern: str, where: Callable[[str], bool], blanked: bool) -> Iterator[tuple[str, int, re.Match]]:
        for path, text in (self.code if blanked else self.files).items():
            if where(path):
                for match in re.finditer(pattern, text, re.MULTILINE):
                    yield path, line_of(text, match.start()), match


def is_cpp(path: str) -> bool:
    return path.endswith((".cpp", ".hpp", ".cu", ".cuh"))


def is_header(path: str) -> bool:
    return path.endswith((".hpp", ".cuh"))


def is_code(path: str) -> bool:
    return is_cpp(path) or path.endswith(
        (".py", ".sh", ".ts", ".tsx", ".css", ".sql", ".cmake", "CMakeLists.txt", "Makefile"))


def is_test(path: str) -> bool:
    return path.startswith("tests/") or ".test." in path or "/e2e/" in path or "/tests/" in path


def is_tidy(path: str) -> bool:
    """The rules' own files hold what they forbid."""
    return path.startswith("tests/tidy/")


def include_directions(tree: Tree) -> Iterator[Problem]:
    includes = r'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">]'
    for path, line, match in tree.matches(includes, is_cpp, blanked=False):
        folder, included = path.split("/")[0], match[1].split("/")[0]
        if folder not in MAY_INCLUDE:
            continue
        allowed = included in MAY_INCLUDE.get(folder, set()) or match[1] in MAY_INCLUDE_FILES.get(folder, set())
        if included in MAY_INCLUDE and included != folder and not allowed:
            yield Problem(path, line, "include_directions", f"{folder} may not include {included} ({match[1]})")
        if included in ("torch", "ATen", "c10") and folder not in MAY_USE_TORCH:
            yield Problem(path, line, "include_directions", f"{folder} may not use LibTorch ({match[1]})")


def cuda_headers(tree: Tree) -> Iterator[Problem]:
    """cuda/ alone knows CUDA and NCCL, and its .cuh files, which do, are its own."""
    includes = r'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">]'
    for path, line, match in tree.matches(includes, is_cpp, blanked=False):
        if re.fullmatch(CUDA_HEADER, match[1]) and not re.fullmatch(MAY_USE_CUDA, path):
            yield Problem(path, line, "cuda_headers",
                          f"only cuda/ includes CUDA, and not in what others include ({match[1]})")


def kernels_for_the_emulator(tree: Tree) -> Iterator[Problem]:
    """Kernels are compiled by nvcc and, for tests without a GPU, by a C++ compiler with the emulator's headers."""
    for path, line, match in tree.matches(r"<<<|\b__CUDACC__\b|\b__CUDA_ARCH__\b", is_cpp, blanked=True):
        yield Problem(path, line, "kernels_for_the_emulator", f"`{match[0]}`: kernels are C++, started by launch()")
    for path, line, _ in tree.matches(r"(?<!extern )\b__shared__\b", is_cpp, blanked=True):
        yield Problem(path, line, "kernels_for_the_emulator", "the emulator only knows shared_memory()")


def header_of_algorithms(tree: Tree) -> Iterator[Problem]:
    """Other headers bring <algorithm> along in some releases of the standard library, and not in others."""
    calls = rf"\bstd::(?:ranges::)?({'|'.join(ALGORITHMS)})(?:<[^;()]*>)?\("
    header, told = "#include <algorithm>\n", set()
    for path, line, match in tree.matches(calls, is_cpp, blanked=True):
        own = {f"{place}.hpp" for place in re.findall(r'^#include "([^"]+)[.]hpp"$', tree.files[path], re.MULTILINE)
               if place.rpartition("/")[2] == Path(path).stem}
        if path not in told and not any(header in tree.files.get(where, "") for where in {path, *own}):
            told.add(path)
            yield Problem(path, line, "header_of_algorithms", f"std::{match[1]} without #include <algorithm>")


def torch_on_the_way(tree: Tree) -> Iterator[Problem]:
    """What is linked into `weir` reaches no header of LibTorch, also not through other headers."""
    includes = r'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">]'
    reached: dict[str, list[str]] = {}
    for path, _, match in tree.matches(includes, is_cpp, blanked=False):
        reached.setdefault(path, []).append(match[1])
    starts = [p for p in tree.code if p in FREE_OF_TORCH or p.split("/")[0] in MAY_INCLUDE.keys() - MAY_USE_TORCH]
    for start in starts:
        seen, waiting = {start}, [start]
        while waiting:
            path = waiting.pop()
            for included in reached.get(path, []):
                if included.split("/")[0] in ("torch", "ATen", "c10") and path != start:
                    yield Problem(start, 1, "torch_on_the_way", f"{path} includes {included}")
                if included not in seen:
                    seen.add(included)
                    waiting.append(included)


def banned_words(tree: Tree) -> Iterator[Problem]:
    for path, line, _ in tree.matches(r"\bdetached\b", is_cpp, blanked=True):
        yield Problem(path, line, "banned_words", "`detached` swallows exceptions; use TaskGroup::spawn")
    for path, line, _ in tree.matches(r"\busing\s+namespace\b", is_header, blanked=True):
        yield Problem(path, line, "banned_words", "`using namespace` in a header")


def sleeps_in_tests(tree: Tree) -> Iterator[Problem]:
    cpp = r"\bthis_thread\s*::\s*sleep_\w+|\b(?:u|nano)sleep\s*\(|(?<![\w.:>])(?:::)?sleep\s*\("
    script = r"\btime\.sleep\b|\bfrom time import .*\bsleep\b|\bwaitForTimeout\b|\bsetTimeout\s*\(|^\s*sleep\s+[0-9.]"
    for path, line, match in tree.matches(cpp, is_test, blanked=True):
        yield Problem(path, line, "sleeps_in_tests", f"`{match[0]}`: wait for the event itself")
    scripts = lambda p: is_test(p) and not is_cpp(p) and not is_tidy(p)
    for path, line, match in tree.matches(script, scripts, blanked=False):
        yield Problem(path, line, "sleeps_in_tests", f"`{match[0].strip()}`: wait for the event itself")


def lambda_coroutines(tree: Tree) -> Iterator[Problem]:
    for path, code in tree.code.items():
        for offset, why in capturing_lambda_coroutines(code):
            yield Problem(path, line_of(code, offset), "lambda_coroutines", why)


def awaited_aggregates(tree: Tree) -> Iterator[Problem]:
    """g++ 12 destroys twice what is built with braces inside a co_await expression."""
    for path, code in tree.code.items():
        for match in re.finditer(r"(?<!operator )\bco_await\b", code):
            if re.search(r"\b[A-Z]\w*\s*\{|[(,]\s*\{", awaited_expression(code, match.end())):
                yield Problem(path, line_of(code, match.start()), "awaited_aggregates",
                              "braces inside a co_await expression; give the value a name before")


def awaited_choices(tree: Tree) -> Iterator[Problem]:
    """g++ 12 runs both branches of a conditional in the operand of co_await, or destroys its result twice."""
    for path, code in tree.code.items():
        for match in re.finditer(r"\bco_await\b", code):
            expression = awaited_expression(code, match.end())
            before = expression.partition("?")[0]
            if before != expression and before.count("(") > before.count(")"):  # else the result is what is asked
                yield Problem(path, line_of(code, match.start()), "awaited_choices",
                              "`?:` inside a co_await expression; give the value a name before")


def awaited_expression(code: str, start: int) -> str:
    depth = 0
    for end in range(start, len(code)):
        depth += (code[end] in "([{") - (code[end] in ")]}")
        if depth < 0 or (depth == 0 and code[end] == ";"):
            return code[start:end]
    return code[start:]


def awaits_in_first_condition(tree: Tree) -> Iterator[Problem]:
    """g++ 12 resumes a coroutine at a wrong place if its body begins with a condition that awaits."""
    pattern = r"\)(?:\s|const|noexcept|override|final)*\{\s*(?:if|while)\s*\([^;{}]*\bco_await\b"
    for path, code in tree.code.items():
        for match in re.finditer(pattern, code):
            after = match.end() + len(awaited_expression(code, match.end()))
            in_statement = code[after:after + 1] == ";"  # `if (auto x = co_await f(); x)` is fine
            in_block = re.search(r"\b(?:for|if|while|switch)\s*$", code[:opening_of(code, match.start())])
            if not in_statement and not in_block:
                yield Problem(path, line_of(code, match.end()), "awaits_in_first_condition",
                              "the body begins with a condition that awaits; use a variable")


def opening_of(code: str, closing: int) -> int:
    depth = 0
    for at in range(closing, -1, -1):
        depth += (code[at] == ")") - (code[at] == "(")
        if depth == 0:
            return at
    return 0


def long_lines(tree: Tree) -> Iterator[Problem]:
    for path, text in tree.files.items():
        if is_code(path):
            for number, line in enumerate(text.splitlines(), 1):
                if len(line) > LINE_COLUMNS_MAX:
                    yield Problem(path, number, "long_lines", f"{len(line)} columns, {LINE_COLUMNS_MAX} at most")


def long_files(tree: Tree) -> Iterator[Problem]:
    for path, text in tree.files.items():
        lines = text.count("\n")
        if is_code(path) and lines > FILE_LINES_MAX:
            yield Problem(path, lines, "long_files", f"{lines} lines, {FILE_LINES_MAX} at most")


def left_behind(tree: Tree) -> Iterator[Problem]:
    words = r"\b(?:TODO|FIXME|XXX|HACK)\b|\b[Ss]tubs?\b(?!/)|\bnot (?:yet )?implemented\b|filled by the module's first"
    for path, line, match in tree.matches(words, lambda p: is_code(p) and not is_tidy(p), blanked=False):
        yield Problem(path, line, "left_behind", f"`{match[0]}`")


def dead_files(tree: Tree) -> Iterator[Problem]:
    builds = {p.rpartition("/")[0]: t for p, t in tree.files.items() if p.endswith("CMakeLists.txt")}
    included: set[str] = set()
    for path, _, match in tree.matches(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', is_cpp, blanked=False):
        included |= {match[1], f"{path.rpartition('/')[0]}/{match[1]}"}
    everything_cmake = "\n".join(t for p, t in tree.files.items() if p.endswith((".cmake", "CMakeLists.txt")))
    for path in tree.code:
        if is_header(path) and path not in included:
            yield Problem(path, 1, "dead_files", "no file includes this header")
        if path.endswith((".cpp", ".cu")):
            # Named by the CMakeLists.txt of a folder above, relative to it, or by its full path anywhere.
            folders = [path[:i] for i, c in enumerate(path) if c == "/"] + [""]
            named = any(re.search(rf"(?<![\w/.]){re.escape(path.removeprefix(f + '/'))}(?![\w.])", builds[f])
                        for f in folders if f in builds)
            if not named and f"/{path}" not in everything_cmake:
                yield Problem(path, 1, "dead_files", "no CMakeLists.txt builds this file")


def static_registrars(tree: Tree) -> Iterator[Problem]:
    objects = r"^[ \t]*(?:(?:static|inline|const|constinit)\s+)+[\w:]*\bRegist(?:er|rar)\w*(?:<[^;]*>)?\s+\w+\s*[({=;]"
    reason = "linkers drop such objects from static libraries; list it in a catalog"
    for path, line, _ in tree.matches(objects, is_cpp, blanked=True):
        yield Problem(path, line, "static_registrars", reason)
    macros = r"^[ \t]*#[ \t]*define[ \t]+\w*REGIST\w*\(|__attribute__\s*\(\(\s*constructor"
    for path, line, _ in tree.matches(macros, is_cpp, blanked=True):
        yield Problem(path, line, "static_registrars", "registration is a visible list, not a macro or constructor")


def untold_targets(tree: Tree) -> Iterator[Problem]:
    """`make help` shows a target by the `## text` behind it."""
    for path, line, match in tree.matches(r"^([a-z-]+):(?!=)(.*)$", lambda p: p.endswith("Makefile"), blanked=False):
        if "## " not in match[2]:
            yield Problem(path, line, "untold_targets", f"`make help` does not show {match[1]}")


RULES = [include_directions, cuda_headers, kernels_for_the_emulator, header_of_algorithms, torch_on_the_way,
         banned_words, sleeps_in_tests, lambda_coroutines, awaited_aggregates, awaited_choices,
         awaits_in_first_condition, long_lines, long_files, left_behind, dead_files, static_registrars, untold_targets]


def check(tree: Tree) -> list[Problem]:
    return sorted((p for rule in RULES for p in rule(tree)), key=lambda p: (p.path, p.line, p.rule))


def source_tree() -> Tree:
    listed = subprocess.run(["git", "-c", f"safe.directory={ROOT}", "ls-files", "-co", "--exclude-standard", "-z"],
                            cwd=ROOT, check=True, capture_output=True).stdout.decode()
    paths = sorted(p for p in listed.split("\0") if is_code(p) and (ROOT / p).is_file())
    return Tree({p: (ROOT / p).read_text(errors="replace") for p in paths})


def main() -> int:
    tree = source_tree()
    problems = check(tree)
    for problem in problems:
        print(problem)
    print(f"{len(tree.files)} files, {len(RULES)} rules, {len(problems)} problems")
    return 1 if problems or not tree.files else 0


if __name__ == "__main__":
    sys.exit(main())
