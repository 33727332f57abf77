#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compressors/kernels/selection/selection.hpp"

namespace weir::training {

/// Adds up entries that several ranks have chosen. It works in memory of the caller's, of which only what is touched is
/// read and written.
class EntrySum {
 public:
  /// `room`: zeros, one for each possible position.
  void begin(std::span<float> room);
  /// Adds `share` times the entries.
  void add(const compressors::Selection& entries, float share);
  /// Moves the sums to `out`, of every position that was added to; positions ascend. The room is zero again.
  void take(compressors::Selection& out);

 private:
  std::span<float> room_;
  std::vector<std::uint64_t> touched_;  ///< a bit for each position; zero before begin()
};

}  // namespace weir::training
