#pragma once

#include <optional>
#include <string>

#include "compressors/compressor.hpp"

namespace weir::compressors {

/// Why error feedback (a residual of what was not sent) makes no sense with this compressor, if it does not.
std::optional<std::string> no_residual(const Compressor& compressor);

/// The same for error feedback that reckons with the mean which the ranks agree on, too.
std::optional<std::string> no_mean_residual(const Compressor& compressor);

}  // namespace weir::compressors
