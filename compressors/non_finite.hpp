#pragma once

#include <span>

#include "base/result.hpp"
#include "compressors/compressor.hpp"

namespace weir::compressors {

/// The error for a gradient with NaN or infinity; it names the tensor and the first such entry.
Error non_finite(const Round& round, std::span<const float> values);

}  // namespace weir::compressors
