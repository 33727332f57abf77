#pragma once

#include <cstdint>

namespace weir::cuda {

/// What kernels found about the entries that they saw. Lies in the device's memory; the caller fills it with zeros,
/// kernels only raise its numbers, and the caller copies it to the host with the payload. Several tensors may share
/// one.
struct Report {
  /// The largest magnitude (the bits of a float without the sign); magnitude_infinite or more if a value is NaN or
  /// infinite.
  std::uint32_t largest = 0;
  /// Not zero if something did not fit its code, or a code was none: the kernel says what.
  std::uint32_t misfit = 0;
};

inline constexpr std::uint32_t magnitude_infinite = 0x7F800000U;

}  // namespace weir::cuda
