#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/bytes.hpp"

namespace weir {

/// Bytes that lie in several segments, one after another. A copy of it refers to the same segments.
class Pieces {
 public:
  Pieces() = default;
  explicit Pieces(Segment whole) { add(std::move(whole)); }

  /// Adds bytes at the end.
  void add(Segment piece);

  std::uint64_t size() const { return size_; }

  /// Appends to `out` views of the `bytes` bytes from `offset` on, in their order. That many must be there.
  void append_views(std::uint64_t offset, std::uint64_t bytes, std::vector<BytesView>& out) const;

  /// Copies them into one buffer.
  Bytes copy(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  std::vector<Segment> segments_;      ///< none is empty
  std::vector<std::uint64_t> begins_;  ///< of each segment
  std::uint64_t size_ = 0;
};

}  // namespace weir
