#pragma once

#include <optional>
#include <string>

#include "compressors/compressor.hpp"

namespace weir::compressors {

/// The reason why error feedback (a residual of what was not sent) does not fit this compressor; nothing if it fits.
std::optional<std::string> no_residual(const Compressor& compressor);

/// The same for error feedback that also uses the mean which the ranks agree on.
std::optional<std::string> no_mean_residual(const Compressor& compressor);

}  // namespace weir::compressors
