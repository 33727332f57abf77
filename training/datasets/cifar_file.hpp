#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace weir::training {

/// The binary version of the CIFAR datasets (Krizhevsky 2009): records without a header, each of one or two bytes of
/// labels and 3,072 bytes of pixels: 32 x 32 of red, then of green, then of blue, row by row.
struct CifarFormat {
  static constexpr std::size_t pixel_bytes = std::size_t{3} * 32 * 32;

  std::size_t label_bytes = 1;
  std::size_t label_at = 0;  ///< which of them counts
  std::uint16_t classes = 10;

  std::size_t record_bytes() const { return label_bytes + pixel_bytes; }
};

/// Appends the `records` images of a file, whose bytes are untrusted, and their labels. Fails with: malformed (another
/// length, or a label that is no class).
Result<void> read_cifar(BytesView file, const CifarFormat& format, std::size_t records,
                        std::vector<std::uint8_t>& pixels, std::vector<std::uint16_t>& labels);

}  // namespace weir::training
