#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "protocol/schema.hpp"

namespace weir::protocol {

/// Whether the workers of a job exchange with their neighbours in a graph only. `spec` follows the schema; of names
/// that the catalog does not have nothing is known.
bool exchanges_with_neighbours(const nlohmann::json& spec, const nlohmann::json& catalog);

/// What does not fit in a job whose workers exchange with neighbours: a compressor of which all workers need the
/// results, or a memory. Its memory has been chosen.
std::vector<Problem> check_neighbours(const nlohmann::json& spec, const nlohmann::json& catalog);

/// What no schema says of a mode's parameters, which are complete: where one depends on another or on the number of
/// workers.
std::vector<Problem> check_mode_params(const nlohmann::json& spec);

}  // namespace weir::protocol
