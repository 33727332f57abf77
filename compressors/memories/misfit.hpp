#pragma once

#include <optional>
#include <string>

#include "compressors/compressor.hpp"
#include "compressors/memory.hpp"

namespace weir::compressors {

/// The reason why error feedback (a residual of what was not sent) does not fit this compressor; nothing if it fits.
std::optional<std::string> no_residual(const Compressor& compressor);

/// The same for error feedback that also uses the mean which the ranks agree on.
std::optional<std::string> no_mean_residual(const Compressor& compressor);

/// The reason why a compressor or a memory does not fit where the ranks exchange by how much their models differ from
/// the last common one; nothing if it fits. Each rank's optimizer has applied its momentum by then, and the mean has to
/// have the size of the differences.
std::optional<std::string> no_differences(const Traits& compressor);
std::optional<std::string> no_differences(const MemoryTraits& memory);

}  // namespace weir::compressors
