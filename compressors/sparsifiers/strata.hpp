#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "compressors/compressor.hpp"
#include "compressors/kernels/random/random.hpp"
#include "compressors/parallel_loops.hpp"
#include "compressors/round_key.hpp"

namespace weir::compressors {

/// Draws one entry from each of `count` parts (strata) of [0, entries), whose lengths differ by at most one: part i
/// begins at floor(i * entries / count). The draw depends on seed, step and tensor, so it is the same on all ranks;
/// every entry of a part has the same probability. `count` is between 1 and `entries`.
class Strata {
 public:
  Strata(const Round& round, std::uint64_t entries, std::uint64_t count)
      : key_(key_of_all(round)), entries_(entries), count_(count) {}

  /// The length of the longest stratum.
  static std::uint64_t longest(std::uint64_t entries, std::uint64_t count) { return (entries + count - 1) / count; }

  static constexpr std::size_t batch = 64;
  struct Drawn {
    std::uint32_t position = 0;
    std::uint32_t length = 0;  ///< length of the stratum
  };

  /// Calls body(first, begin, end, drawn) for up to `batch` strata at a time, in order: the strata starting at number
  /// `first`, which together are the entries from `begin` to `end`.
  template <class Body>
  void for_each_batch(const Body& body) const {
    for_each_batch(0, batches(), body);
  }

  /// The same on several threads (parallel_loops.hpp), in any order.
  template <class Body>
  void parallel_for_batches(const Body& body) const {
    parallel_for_part_ranges(batches(), batch * longest(entries_, count_),
                             [&](std::size_t first, std::size_t last) { for_each_batch(first, last, body); });
  }

 private:
  std::uint64_t batches() const { return (count_ + batch - 1) / batch; }

  template <class Body>
  void for_each_batch(std::uint64_t first_batch, std::uint64_t last_batch, const Body& body) const {
    const std::uint64_t from = first_batch * batch;
    const std::uint64_t to = std::min(last_batch * batch, count_);
    std::array<std::uint32_t, batch> words;
    std::array<Drawn, batch> drawn;
    const std::uint64_t length = entries_ / count_;
    const std::uint64_t left_over = entries_ % count_;
    std::uint64_t start = from * entries_ / count_;
    std::uint64_t fraction = from * left_over % count_;  // fractional part of the start, in units of 1 / count_
    for (std::uint64_t first = from; first < to; first += batch) {
      const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(batch, to - first));
      fill_random(key_, first, std::span(words).first(size));
      const std::uint64_t begin = start;
      for (std::size_t i = 0; i < size; ++i) {
        fraction += left_over;
        const bool longer = fraction >= count_;
        if (longer) fraction -= count_;
        const std::uint64_t own = length + longer;
        drawn[i] = {static_cast<std::uint32_t>(start + (words[i] * own >> 32)), static_cast<std::uint32_t>(own)};
        start += own;
      }
      body(first, begin, start, std::span<const Drawn>(drawn).first(size));
    }
  }

  RandomKey key_;
  std::uint64_t entries_;
  std::uint64_t count_;
};

}  // namespace weir::compressors
