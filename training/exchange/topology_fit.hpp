#pragma once

#include <optional>
#include <string>

#include "collectives/topologies/catalog.hpp"
#include "compressors/compressor.hpp"

namespace weir::training {

/// The reason why a topology does not carry what a compressor sends; nothing if it does. The head reads the same reason
/// in the catalog, by the name of those to whom the topology's payloads go (`owners_misfit` and so on).
std::optional<std::string> topology_misfit(const collectives::TopologyType& topology,
                                           const compressors::Compressor& compressor);

}  // namespace weir::training
