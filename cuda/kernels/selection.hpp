#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"
#include "cuda/kernels/cut.hpp"
#include "cuda/stream.hpp"

namespace weir::cuda {

// Twins of compressors/kernels/selection/selection.hpp. All pointers are to the device's memory; a tensor has fewer
// than 2^32 entries.

/// What a selection found. Lies in the device's memory; the caller fills it with zeros and copies it to the host.
struct Selected {
  std::uint32_t count = 0;
  /// The largest magnitude (report.hpp) among those that were written.
  std::uint32_t largest = 0;
};

/// Where the selected entries are written: their positions, strictly ascending, and their values. There is room for
/// `limit`; if `selected->count` is larger, only the first `limit` were written.
struct Selection {
  std::uint32_t* positions = nullptr;
  float* values = nullptr;
  std::uint64_t limit = 0;
  Selected* selected = nullptr;
};

/// Where entries find their place; what is in it means nothing to others. A selection among n entries needs `bytes(n)`
/// of the device's memory, aligned as by Memory.
struct PlaceScratch {
  static std::size_t bytes(std::uint64_t n);

  std::byte* at = nullptr;
};

/// Twin of collect(): all entries whose magnitude is at least `least` (`least` >= 1). Where the twin returns false,
/// selected->count is above the limit. Per entry: 4 bytes read; per selected entry, 8 written.
Result<void> collect(const float* values, std::uint64_t n, std::uint32_t least, const Selection& to,
                     const PlaceScratch& scratch, StreamHandle stream);

/// The same for a cut that is on the device: all entries that it selects. With a cut of find_cut() the twin of
/// select_largest().
Result<void> take(const float* values, std::uint64_t n, const Cut* cut, const Selection& to,
                  const PlaceScratch& scratch, StreamHandle stream);

/// The same for the velocity of DGC, whose selected entries become zero, and with them those of `momentum`, if it is
/// not null. Where selected->largest is not finite, both have lost entries that were not sent. Per entry: 4 bytes read;
/// per selected entry, 8 written, and one sector of 32 bytes read and written for each tensor.
Result<void> take_and_clear(float* velocity, float* momentum, std::uint64_t n, const Cut* cut, const Selection& to,
                            const PlaceScratch& scratch, StreamHandle stream);

/// Twin of trim(), of a selection that has n entries, to another place. Per entry: 8 bytes read; per selected entry, 8
/// written.
Result<void> trim(const std::uint32_t* positions, const float* values, std::uint64_t n, const Cut* cut,
                  const Selection& to, const PlaceScratch& scratch, StreamHandle stream);

/// Twin of add_selection(), of one selection: its positions are distinct. Several are added one after the other, in
/// the order of the ranks, so that the additions have the order of the CPU's. Per entry: 8 bytes read, and one sector
/// of 32 bytes read and written.
Result<void> add_selection(float weight, const std::uint32_t* positions, const float* values, std::uint64_t n,
                           float* to, StreamHandle stream);

/// Sets the entries at these positions to zero, as momentum masking does. Per entry: 4 bytes read, and one sector of 32
/// bytes read and written.
Result<void> clear_selection(const std::uint32_t* positions, std::uint64_t n, float* to, StreamHandle stream);

}  // namespace weir::cuda
