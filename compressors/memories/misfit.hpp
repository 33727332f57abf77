#pragma once

#include <optional>
#include <string>

#include "compressors/compressor.hpp"

namespace weir::compressors {

/// Why error feedback (a residual of what was not sent) makes no sense with this compressor, if it does not.
std::optional<std::string> no_residual(const Compressor& compressor);

}  // namespace weir::compressors
