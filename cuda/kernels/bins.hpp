#pragma once

#include <cstdint>

namespace weir::cuda {

/// How many entries of a tensor have each value of the upper 11 of their magnitude's 31 bits: the first step of finding
/// its largest entries (cut.hpp). Lies in the device's memory; the caller fills it with zeros, and kernels that write a
/// tensor count on the way.
struct Bins {
  static constexpr unsigned bits = 11;
  static constexpr unsigned size = 1U << bits;

  std::uint32_t counts[size] = {};
};

}  // namespace weir::cuda
