"""Each rule of tidy.py catches what it is for, and leaves what only looks like it alone."""

import unittest
from pathlib import Path

import tidy


def broken(rule, files):
    """The paths:lines that `rule` reports in a tree of these files."""
    return [f"{p.path}:{p.line}" for p in rule(tidy.Tree(files))]


class IncludeDirections(unittest.TestCase):
    def test_upward_includes(self):
        self.assertEqual(broken(tidy.include_directions, {
            "runtime/a.hpp": '#include "cluster/jobs.hpp"\n',
            "cluster/b.cpp": '#include <vector>\n#include "compressors/topk.hpp"\n',
            "actors/c.cpp": '#include "api/server.hpp"\n',
        }), ["runtime/a.hpp:1", "cluster/b.cpp:2", "actors/c.cpp:1"])

    def test_torch_outside_its_folders(self):
        self.assertEqual(broken(tidy.include_directions, {
            "cluster/a.cpp": "#include <torch/all.h>\n",
            "compressors/b.cpp": "#include <ATen/core/Tensor.h>\n",
        }), ["cluster/a.cpp:1"])

    def test_downward_includes_are_fine(self):
        self.assertEqual(broken(tidy.include_directions, {
            "api/a.cpp": '#include "cluster/jobs.hpp"\n#include "api/server.hpp"\n',
            "tests/api/b.cpp": '#include "actors/trainer.hpp"\n',
        }), [])


class CudaHeaders(unittest.TestCase):
    def test_outside_their_folders(self):
        self.assertEqual(broken(tidy.cuda_headers, {
            "compressors/a.cpp": "#include <cuda_runtime.h>\n",
            "collectives/b.hpp": "#include <vector>\n#include <nccl.h>\n",
            "tests/cuda/kernels/c_test.cpp": "#include <cub/cub.cuh>\n",
            "worker/d.cpp": "#include <cuda_fp16.h>\n#include <cublas_v2.h>\n",
            "cuda/stream.hpp": "#include <cuda_runtime.h>\n",
        }), ["compressors/a.cpp:1", "collectives/b.hpp:2", "tests/cuda/kernels/c_test.cpp:1", "worker/d.cpp:1",
             "worker/d.cpp:2", "cuda/stream.hpp:1"])

    def test_headers_of_libtorch_that_include_cuda(self):
        self.assertEqual(broken(tidy.cuda_headers, {
            "training/a.cpp": "#include <c10/cuda/CUDAStream.h>\n#include <ATen/cuda/CUDAEvent.h>\n",
            "compressors/b.hpp": "#include <ATen/native/cuda/Loops.cuh>\n",
            "worker/c.cpp": '#include "torch/csrc/cuda/nccl.h"\n',
            "tests/training/d_test.cpp": "#include <c10/cuda/impl/CUDAGuardImpl.h>\n",
            "cuda/e.hpp": "#include <c10/cuda/CUDAStream.h>\n",
        }), ["training/a.cpp:1", "training/a.cpp:2", "compressors/b.hpp:1", "worker/c.cpp:1",
             "tests/training/d_test.cpp:1", "cuda/e.hpp:1"])
        self.assertEqual(broken(tidy.include_directions, {"cuda/f.cpp": "#include <c10/cuda/CUDAStream.h>\n"}),
                         ["cuda/f.cpp:1"])

    def test_headers_of_libtorch_that_every_libtorch_has(self):
        self.assertEqual(broken(tidy.cuda_headers, {
            "training/a.cpp": "#include <c10/core/Stream.h>\n#include <ATen/detail/CUDAHooksInterface.h>\n",
            "training/b.cpp": "#include <torch/cuda.h>\n#include <c10/core/impl/VirtualGuardImpl.h>\n",
        }), [])

    def test_internal_headers_outside_their_folders(self):
        self.assertEqual(broken(tidy.cuda_headers, {
            "compressors/a.cpp": '#include "cuda/launch.cuh"\n',
            "cuda/kernels/signs.hpp": '#include "cuda/kernels/device.cuh"\n',
        }), ["compressors/a.cpp:1", "cuda/kernels/signs.hpp:1"])

    def test_in_their_folders(self):
        self.assertEqual(broken(tidy.cuda_headers, {
            "cuda/stream.cpp": '#include <cuda_runtime.h>\n#include "cuda/check.cuh"\n',
            "cuda/kernels/signs.cu": '#include <cuda_runtime.h>\n#include "cuda/kernels/device.cuh"\n',
            "tests/cuda/emulator/a.cpp": "#include <cuda_runtime.h>\n",
            "compressors/b.cpp": '#include "cuda/kernels/signs.hpp"\n',
        }), [])

    def test_direction(self):
        self.assertEqual(broken(tidy.include_directions, {
            "cuda/kernels/a.cu": '#include "compressors/kernels/pack.hpp"\n#include "base/philox.hpp"\n',
            "cuda/b.cuh": '#include "training/shapes.hpp"\n#include "collectives/group.hpp"\n',
            "cuda/c.cpp": "#include <ATen/ATen.h>\n",
            "compressors/d.cpp": '#include "cuda/stream.hpp"\n',
            "cluster/e.cpp": '#include "cuda/stream.hpp"\n',
        }), ["cuda/kernels/a.cu:1", "cuda/b.cuh:1", "cuda/c.cpp:1", "cluster/e.cpp:1"])


class KernelsForTheEmulator(unittest.TestCase):
    def test_what_it_does_not_read(self):
        self.assertCountEqual(broken(tidy.kernels_for_the_emulator, {
            "cuda/kernels/a.cu": "a<<<1, 2>>>(x);\n__shared__ float sums[32];\n#ifdef __CUDA_ARCH__\n",
            "compressors/b.cpp": "#if defined(__CUDACC__)\n",
        }), ["cuda/kernels/a.cu:1", "cuda/kernels/a.cu:2", "cuda/kernels/a.cu:3", "compressors/b.cpp:1"])

    def test_what_it_reads(self):
        self.assertEqual(broken(tidy.kernels_for_the_emulator, {
            "cuda/kernels/a.cu": "// not <<<1, 2>>>, no __shared__\nauto* sums = shared_memory<float>();\n",
            "cuda/kernels/device.cuh": "extern __shared__ uint4 weir_shared[];\n",
        }), [])


class TorchOnTheWay(unittest.TestCase):
    def test_through_another_header(self):
        self.assertEqual(broken(tidy.torch_on_the_way, {
            "training/shapes.cpp": '#include "training/models/a.hpp"\n#include "training/models/b.hpp"\n',
            "training/models/a.hpp": "#include <vector>\n",
            "training/models/b.hpp": '#include "training/models/c.hpp"\n',
            "training/models/c.hpp": "#include <ATen/core/Tensor.h>\n",
            "cli/d.cpp": '#include "training/models/c.hpp"\n',
            "actors/trainer.cpp": '#include "training/models/c.hpp"\n',
        }), ["training/shapes.cpp:1", "cli/d.cpp:1"])


class BannedWords(unittest.TestCase):
    def test_detached(self):
        files = {"a/a.cpp": "co_spawn(io, f(),\n  net::detached);\n"}
        self.assertEqual(broken(tidy.banned_words, files), ["a/a.cpp:2"])

    def test_using_namespace_in_a_header(self):
        self.assertEqual(broken(tidy.banned_words, {
            "a/a.hpp": "using namespace std;\n", "a/a.cpp": "using namespace std::chrono_literals;\n",
            "cuda/a.cuh": "using namespace std;\n"}), ["a/a.hpp:1", "cuda/a.cuh:1"])

    def test_comments_and_strings_are_fine(self):
        self.assertEqual(broken(tidy.banned_words, {
            "a/a.hpp": '// never detached\n/* using namespace x */\n',
            "a/a.cpp": 'auto s = "detached";\nauto r = R"(detached)";\n'}), [])


class SleepsInTests(unittest.TestCase):
    def test_every_language(self):
        self.assertEqual(broken(tidy.sleeps_in_tests, {
            "tests/a_test.cpp": "std::this_thread::sleep_for(1s);\nusleep(3);\n::sleep(1);\n",
            "tests/system/b.py": "import time\ntime.sleep(1)\n",
            "dashboard/src/c.test.ts": "await new Promise((r) => setTimeout(r, 100))\n",
            "dashboard/e2e/d.spec.ts": "await page.waitForTimeout(500)\n",
            "tests/e.sh": "sleep 5\n",
        }), ["tests/a_test.cpp:1", "tests/a_test.cpp:2", "tests/a_test.cpp:3", "tests/system/b.py:2",
             "dashboard/src/c.test.ts:1", "dashboard/e2e/d.spec.ts:1", "tests/e.sh:1"])

    def test_virtual_clocks_and_other_code_are_fine(self):
        self.assertEqual(broken(tidy.sleeps_in_tests, {
            "tests/a_test.cpp": "co_await clock.sleep_until(t);\nco_await clock->sleep(t);\n",
            "runtime/b.cpp": "std::this_thread::sleep_for(1s);\n",
        }), [])


class LambdaCoroutines(unittest.TestCase):
    def test_inside_co_await(self):
        self.assertEqual(broken(tidy.lambda_coroutines, {"a/a.cpp": """
awaitable<void> f() {
  co_await co_spawn(io, [v = std::move(v)]() mutable -> awaitable<void> {
    co_return;
  }, use_awaitable);
  auto r = co_await (g([this] { co_return co_await h(); }) || timer());
}
"""}), ["a/a.cpp:3", "a/a.cpp:6"])

    def test_called_on_the_spot(self):
        self.assertEqual(broken(tidy.lambda_coroutines, {"a/a.cpp": """
void f() {
  group.spawn("x", [this]() -> net::awaitable<void> { co_await g(); }());
}
"""}), ["a/a.cpp:3"])

    def test_named_captureless_or_plain_lambdas_are_fine(self):
        self.assertEqual(broken(tidy.lambda_coroutines, {"a/a.cpp": """
awaitable<void> f() {
  auto named = [v = 1]() -> awaitable<void> { co_return; };
  co_await co_spawn(io, named, use_awaitable);
  co_await co_spawn(io, []() -> awaitable<void> { co_return; }, use_awaitable);
  co_await post(io, [this] { count_[0]++; });
  co_await run([&] { auto inner = []() -> awaitable<void> { co_return; }; start(inner); });
  [[maybe_unused]] int x = table[index];
}
"""}), [])


class AwaitsThatTheCompilerBreaks(unittest.TestCase):
    def test_braces_inside_co_await(self):
        self.assertEqual(broken(tidy.awaited_aggregates, {"a/a.cpp": """
            auto a = co_await f(Agg{"x", 1});
            auto b = co_await actor.call<&T::m>(
                1, {"x", 1});
        """}), ["a/a.cpp:2", "a/a.cpp:3"])

    def test_conditional_operator_inside_co_await(self):
        self.assertEqual(broken(tidy.awaited_choices, {"a/a.cpp": """
            auto a = co_await f(x ? g() : h());
            if (!co_await sleep(x ? first : last)) co_return;
            auto b = x ? co_await f() : g();
            co_return co_await f(y) ? 1 : 2;
            auto c = co_await (x ? f() : g());
        """}), ["a/a.cpp:2", "a/a.cpp:3", "a/a.cpp:6"])

    def test_named_values_are_fine(self):
        self.assertEqual(broken(tidy.awaited_aggregates, {"a/a.cpp": """
            auto a = co_await f(agg);
            if (auto r = co_await f(agg); !r) co_return Error{Errc::io, "x"};
            if (!co_await g()) { x(); }
        """}), [])

    def test_first_condition(self):
        self.assertEqual(broken(tidy.awaits_in_first_condition, {"a/a.cpp": """
            awaitable<int> f(int x) const {
              if (!co_await g(x)) co_return 1;
            }
            awaitable<int> h() {
              while (co_await g(1)) {
              }
            }
        """}), ["a/a.cpp:3", "a/a.cpp:6"])

    def test_later_conditions_are_fine(self):
        self.assertEqual(broken(tidy.awaits_in_first_condition, {"a/a.cpp": """
            awaitable<int> f(int x) {
              for (int i = 0; i < x; ++i) {
                if (!co_await g(i)) co_return 1;
              }
              if (auto y = co_await g(x); y) co_return 2;
            }
            awaitable<int> h() { if (auto y = co_await g(1); y) co_return 2; }
        """}), [])


class LongLinesAndFiles(unittest.TestCase):
    def test_lines(self):
        self.assertEqual(broken(tidy.long_lines, {"a/a.cpp": "x" * 120 + "\n" + "x" * 121 + "\n"}), ["a/a.cpp:2"])

    def test_files(self):
        self.assertEqual(broken(tidy.long_files, {"a/a.cpp": "\n" * 600, "a/b.cpp": "\n" * 601}), ["a/b.cpp:601"])


class LeftBehind(unittest.TestCase):
    def test_words(self):
        self.assertEqual(broken(tidy.left_behind, {
            "a/a.cpp": "// TODO later\nint f() { return 0; }  // stub\n",
            "b/b.ts": "throw new Error('not implemented')\n",
        }), ["a/a.cpp:1", "a/a.cpp:2", "b/b.ts:1"])

    def test_other_words_are_fine(self):
        self.assertEqual(broken(tidy.left_behind, {"a/a.cpp": "int stubborn = 1;  // implemented, lib/stubs/\n"}), [])


class DeadFiles(unittest.TestCase):
    def test_unbuilt_and_unincluded(self):
        self.assertEqual(broken(tidy.dead_files, {
            "a/CMakeLists.txt": "weir_library(a SOURCES used.cpp sub/deep.cpp)\n",
            "a/used.cpp": '#include "a/used.hpp"\n', "a/used.hpp": "", "a/sub/deep.cpp": "",
            "a/unused.hpp": "", "a/sed.cpp": "", "a/sub/used.cpp": "",
        }), ["a/unused.hpp:1", "a/sed.cpp:1", "a/sub/used.cpp:1"])

    def test_named_by_full_path(self):
        self.assertEqual(broken(tidy.dead_files, {
            "cmake/x.cmake": "add_executable(x ${PROJECT_SOURCE_DIR}/tests/replay.cpp)\n", "tests/replay.cpp": ""}), [])


class StaticRegistrars(unittest.TestCase):
    def test_objects_macros_and_constructors(self):
        self.assertEqual(broken(tidy.static_registrars, {
            "a/a.cpp": 'static Registrar<TopK> topk_registrar("topk");\n'
                       "static const RegisterCompressor r{make};\n"
                       "#define REGISTER_ACTOR(T) struct T##_\n"
                       "__attribute__((constructor)) void f() {}\n"}),
            ["a/a.cpp:1", "a/a.cpp:2", "a/a.cpp:3", "a/a.cpp:4"])

    def test_declarations_are_fine(self):
        self.assertEqual(broken(tidy.static_registrars, {
            "a/a.hpp": "static void register_route(int a);\nvoid registered();\nRegistration registration_;\n"}), [])


class HeaderOfAlgorithms(unittest.TestCase):
    def test_a_file_that_leaves_it_to_others(self):
        self.assertEqual(broken(tidy.header_of_algorithms, {
            "a/a.cpp": '#include "a/b.hpp"\n#include <vector>\nint x = std::max<int>(1, 2);\nint y = std::min(1, 2);\n',
            "a/b.hpp": "#include <algorithm>\n",
            "a/c.hpp": "bool b = std::ranges::any_of(v, is);\n"}), ["a/a.cpp:3", "a/c.hpp:1"])

    def test_its_own_header_and_other_names_are_fine(self):
        self.assertEqual(broken(tidy.header_of_algorithms, {
            "a/a.cpp": '#include "a/a.hpp"\nint x = std::max(1, 2);\n',
            "a/a.hpp": "#include <algorithm>\n",
            "a/b.cpp": "#include <algorithm>\nint x = std::max(1, 2);\n",
            "a/c.cpp": "// std::max(1, 2)\nauto n = std::ranges::size(v); int y = std::numeric_limits<int>::max();\n"}),
            [])


class WholeTree(unittest.TestCase):
    def test_every_rule_has_a_test(self):
        tests = Path(__file__).read_text()
        self.assertEqual([rule.__name__ for rule in tidy.RULES if f"tidy.{rule.__name__}, " not in tests], [])

    def test_problems_name_place_rule_and_reason(self):
        problems = tidy.check(tidy.Tree({"base/a.cpp": "// TODO\n"}))
        self.assertEqual([str(p) for p in problems], [
            "base/a.cpp:1: dead_files: no CMakeLists.txt builds this file", "base/a.cpp:1: left_behind: `TODO`"])


class UntoldTargets(unittest.TestCase):
    def test_a_target_that_help_does_not_show(self):
        self.assertEqual(broken(tidy.untold_targets, {
            "Makefile": "x := 1\nrun: build # a cluster\nbuild: ## release build\n\t@echo a: b\n.PHONY: run\n"}),
            ["Makefile:2"])


if __name__ == "__main__":
    unittest.main()
