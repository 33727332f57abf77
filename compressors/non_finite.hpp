#pragma once

#include <span>

#include "base/result.hpp"
#include "compressors/compressor.hpp"

namespace weir::compressors {

/// The error for a gradient that is not finite: names tensor and entry.
Error non_finite(const Round& round, std::span<const float> values);

}  // namespace weir::compressors
