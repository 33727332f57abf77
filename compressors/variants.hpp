#pragma once

#include <nlohmann/json.hpp>
#include <span>

#include "compressors/catalog.hpp"

namespace weir::compressors {

/// What a compressor fits: {"fits_owners", "fits_split", "votes": Traits, "memory_misfits": reasons by name of a
/// memory, "differences_misfit": the reason of no_differences(), if there is one}.
nlohmann::json fits_of(const Compressor& compressor, std::span<const MemoryEntry> memories);

/// What `entry` fits where that depends on parameters that are flags or choices among a list: [{"params": those
/// parameters, and what fits_of() says}] for each combination of them. The other parameters have their defaults. Empty
/// if nothing depends on such parameters.
nlohmann::json variants_of(const CompressorEntry& entry, std::span<const MemoryEntry> memories);

}  // namespace weir::compressors
