#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/bench.hpp"

namespace weir::bench {

struct ScalingOptions {
  Options common;
  std::vector<std::uint32_t> ranks = {8, 32, 128, 1024};
  std::vector<double> gigabits = {1, 10, 100};
  std::vector<double> latencies_ms = {0.05, 1, 20};
  /// Of a step without the exchange, for all models; empty: what layer_lists() says.
  std::optional<double> compute_ms;
  std::uint32_t threads = 1;  ///< cells that are simulated side by side
  /// Steps that would send more frames are not simulated: for these the model's prediction stands in their place.
  double frames_max = 1e6;
  /// The rows "costs/..." of an earlier run, instead of measuring what coding takes; empty: measured.
  std::string costs;
};

/// `weir bench scaling`: how long a training step takes on networks that are not there. Each rank of a simulated group
/// does what the production schedule does, with the production collectives (simulated_step.hpp); what coding and adding
/// takes is measured here, on one core. A cell is a model, a number of ranks, a rate and a latency; each has the step
/// times of dense float32, dense bfloat16 and some compressors over the topologies that a job can name, of which the
/// best counts, and of a job of each of them whose topology is left to `auto`: of the plans that it would try, the one
/// that it would follow. Prints to stdout a row for what coding takes with each compressor and model that has a
/// cell, and one for each cell, when it is done; a filter of "^costs" leaves the cells out. Returns an exit code: 0, 1
/// if something failed, 2 for invalid options.
int scaling(const ScalingOptions& options);

}  // namespace weir::bench
