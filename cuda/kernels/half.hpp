#pragma once

#include <cstdint>

#include "base/half.hpp"
#include "base/result.hpp"
#include "cuda/kernels/report.hpp"
#include "cuda/stream.hpp"

namespace weir::cuda {

// Twins of base/half.hpp, as fp16 and bf16 use it (compressors/quantizers/cast.hpp). Number is Half or BFloat16. All
// pointers are to the device's memory, aligned for their type, and may not overlap.

/// to = share * from, rounded; the share is 1 / world. Per entry: 4 bytes read, 2 written. `report->largest` tells of
/// share * from.
template <class Number>
Result<void> round_to(const float* from, std::uint64_t n, float share, Number* to, Report* report, StreamHandle stream);

/// Twin of add_scaled(): to += weight * from. Per entry: 6 bytes read, 4 written. `report->misfit` is raised if a
/// number is NaN or infinite.
template <class Number>
Result<void> add_scaled(float weight, const Number* from, std::uint64_t n, float* to, Report* report,
                        StreamHandle stream);

/// What add_scaled() makes of zeros with a weight of 1. Per entry: 2 bytes read, 4 written.
template <class Number>
Result<void> widen(const Number* from, std::uint64_t n, float* to, Report* report, StreamHandle stream);

}  // namespace weir::cuda
