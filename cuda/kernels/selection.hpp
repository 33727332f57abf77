#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "cuda/kernels/cut.hpp"
#include "cuda/stream.hpp"

namespace weir::cuda {

// Twins of compressors/kernels/selection/selection.hpp. All pointers are to the device's memory; a tensor has fewer
// than 2^32 entries.

/// Where the selected entries are written: their positions, strictly ascending, and their values. There is room for
/// `limit`; if `*count`, which says how many were selected, is larger, only the first `limit` were written. All is in
/// the device's memory; the caller fills `*count` with zero.
struct Selection {
  std::uint32_t* positions = nullptr;
  float* values = nullptr;
  std::uint64_t limit = 0;
  std::uint32_t* count = nullptr;
};

/// What is selected from: n values.
struct From {
  const float* values = nullptr;
  std::uint64_t n = 0;
  const std::uint32_t* positions = nullptr;  ///< theirs; null: 0, 1, ...
};

/// Where entries find their place; what is in it means nothing to others. A selection among n entries needs `bytes(n)`
/// of the device's memory, aligned as by Memory, and one among those of several tensors as much as all of them
/// together.
struct PlaceScratch {
  static std::size_t bytes(std::uint64_t n);

  std::byte* at = nullptr;
};

/// Twin of collect(): all entries whose magnitude is at least `least` (`least` >= 1). Where the twin returns false,
/// `*to.count` is above the limit. Per entry: 4 bytes read; per selected entry, 8 written.
Result<void> collect(const float* values, std::uint64_t n, std::uint32_t least, const Selection& to,
                     const PlaceScratch& scratch, StreamHandle stream);

/// A tensor for take(): what its cut, which is on the device, selects.
struct Taken {
  From from;
  const Cut* cut = nullptr;
  Selection to;
};

/// The same for cuts that are on the device, of several tensors in one launch: all entries that each selects. With a
/// cut of find_cut() the twin of select_largest(), and among the entries of a selection that of trim(). Per entry: 4
/// bytes read, or 8 with positions; per selected entry, 8 written.
Result<void> take(std::span<const Taken> tensors, const PlaceScratch& scratch, StreamHandle stream);

/// Entries that go to a tensor: their positions, which are distinct, and, for add_selection(), what is added there.
struct Entries {
  const std::uint32_t* positions = nullptr;
  std::uint64_t n = 0;
  float* to = nullptr;
  const float* values = nullptr;
  float weight = 1;
};

/// Twin of add_selection(), of a selection for each of several tensors, in one launch. Those for one tensor are added
/// by one call after the other, in the order of the ranks, so that the additions have the order of the CPU's. Per
/// entry: 8 bytes read, and one sector of 32 bytes read and written.
Result<void> add_selection(std::span<const Entries> selections, StreamHandle stream);

/// Sets the entries at these positions to zero, as momentum masking does. Per entry: 4 bytes read, and one sector of 32
/// bytes read and written.
Result<void> clear_selection(std::span<const Entries> selections, StreamHandle stream);

}  // namespace weir::cuda
