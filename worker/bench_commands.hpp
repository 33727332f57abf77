#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace weir::worker {

/// Adds `weir-worker bench` with the measurements that need LibTorch. If one of them is asked for, parsing sets
/// `chosen` to what makes it and returns an exit code.
void add_bench(CLI::App& program, std::function<int()>& chosen);

}  // namespace weir::worker
