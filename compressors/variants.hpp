#pragma once

#include <nlohmann/json.hpp>
#include <span>

#include "compressors/catalog.hpp"

namespace weir::compressors {

/// What a compressor fits: {"fits_owners", "fits_split", "fits_hops", "votes": Traits, "memory_misfits": reasons by
/// name of a memory, "hops_misfit", "differences_misfit", "neighbours_misfit", "pushes_misfit": the reasons of
/// no_hops(), no_differences(), no_neighbours() and no_pushes(), if there are}.
nlohmann::json fits_of(const Compressor& compressor, std::span<const MemoryEntry> memories);

/// What `entry` fits where that depends on parameters that are flags or choices among a list: [{"params": those
/// parameters, and what fits_of() says}] for each combination of them. The other parameters have their defaults. Empty
/// if nothing depends on such parameters.
nlohmann::json variants_of(const CompressorEntry& entry, std::span<const MemoryEntry> memories);

}  // namespace weir::compressors
