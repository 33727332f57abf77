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
  /// For measurements over a real network, with one process per host: this process's rank, and the addresses
  /// "HOST:PORT" of all ranks in rank order. Without them, four ranks run as threads of this process, over loopback.
  std::optional<std::uint32_t> rank;
  std::vector<std::string> peers;
};

/// `weir bench train`: the training step of LeNet on generated images, with one computing thread per rank. In the same
/// run it measures its own limit, the step of the same ranks side by side without an exchange, and then the step with
/// each compression. Prints to stdout. Returns an exit code: 0, 1 if a rank failed, 2 for invalid options.
int train(const TrainOptions& options);

}  // namespace weir::bench
