#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/bench.hpp"
#include "bench/place.hpp"

namespace weir::bench {

struct AllReduceOptions {
  Options common;  ///< the filter is over the names of topologies
  PlaceOptions place;
  std::vector<std::uint64_t> bytes;  ///< sizes of the arrays
  std::uint32_t rounds = 20;
  std::string transport = "auto";  ///< with shared memory between ranks of one host; or "tcp" everywhere
};

/// `weir-worker bench all-reduce`: sums of float32 arrays by each topology that fits, one after the other without a
/// pause, between this process's rank and those of other processes. Prints what this rank measured to stdout. Returns
/// an exit code: 0, 1 if a rank failed, 2 for invalid options.
int all_reduce(const AllReduceOptions& options);

}  // namespace weir::bench
