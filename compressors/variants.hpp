#pragma once

#include <nlohmann/json.hpp>
#include <span>

#include "compressors/catalog.hpp"

namespace weir::compressors {

/// What a compressor fits: {"votes": Traits, "owners_keep_residual": that function's answer, "memory_misfits": reasons
/// by name of a memory, "owners_misfit", "regions_misfit", "partners_misfit", "differences_misfit",
/// "neighbours_misfit", "pushes_misfit": the reasons of no_owners(), no_regions(), no_hops(), no_differences(),
/// no_neighbours() and no_pushes(), if there are}. The first three are named after those to whom a topology's payloads
/// go, as its entry says (`gathers`).
nlohmann::json fits_of(const Compressor& compressor, std::span<const MemoryEntry> memories);

/// What `entry` fits where that depends on parameters: [{"params": those parameters, and what fits_of() says}] for each
/// combination of them. Flags, choices among a list and whole numbers of a short range are there with their values;
/// another number with its limits, {"minimum", "maximum"} or one of both. For each combination of the former there is
/// one such number at most; others have their defaults. Empty if nothing depends on parameters.
nlohmann::json variants_of(const CompressorEntry& entry, std::span<const MemoryEntry> memories);

}  // namespace weir::compressors
