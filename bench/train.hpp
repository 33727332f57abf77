#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/bench.hpp"

namespace weir::bench {

struct TrainOptions {
  Options common;
  std::uint64_t steps = 60;
  std::uint64_t batch_size = 32;
  /// To measure over a real network, one process per host: this rank, and where all ranks listen, "HOST:PORT" in rank
  /// order. Without it four ranks run as threads of this process, over loopback.
  std::optional<std::uint32_t> rank;
  std::vector<std::string> peers;
};

/// `weir bench train`: the training step of LeNet on made-up images, one thread of computation per rank. In the same
/// run it measures its own limit, the step of the same ranks side by side without an exchange, and then the step with
/// each compression. Prints to stdout. Gives an exit code: 0, 1 if a rank failed, 2 for options that make no sense.
int train(const TrainOptions& options);

}  // namespace weir::bench
