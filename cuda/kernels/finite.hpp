#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "cuda/kernels/report.hpp"
#include "cuda/stream.hpp"

namespace weir::cuda {

/// Twin of all_finite(), which is `report->largest` < magnitude_infinite. Per entry: 4 bytes read.
Result<void> find_largest(const float* values, std::uint64_t n, Report* report, StreamHandle stream);

/// Twin of find_non_finite(): `*first` becomes the position of the first value that is NaN or infinite; n if there is
/// none. Per entry: 4 bytes read.
Result<void> find_non_finite(const float* values, std::uint64_t n, unsigned long long* first, StreamHandle stream);

}  // namespace weir::cuda
