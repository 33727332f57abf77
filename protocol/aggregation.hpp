#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "protocol/schema.hpp"

namespace weir::protocol {

/// What is wrong with compression.aggregation, by the catalog: not all payloads lead to every aggregate. `spec` follows
/// the schema, and its memory has been chosen.
std::vector<Problem> check_aggregation(const nlohmann::json& spec, const nlohmann::json& catalog);

}  // namespace weir::protocol
