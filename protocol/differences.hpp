#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "protocol/schema.hpp"

namespace weir::protocol {

/// What the workers of a job exchange: "gradients", "differences" between their models, "models" with neighbours in a
/// graph, or "nothing". `spec` follows the schema; a mode that the catalog does not have counts as one that exchanges
/// gradients.
std::string exchanged(const nlohmann::json& spec, const nlohmann::json& catalog);

/// The memory that goes with a compressor of the catalog in such a job, or in any other.
std::string default_memory(const nlohmann::json& compressor, bool differences);

/// What does not fit in a job whose workers exchange differences: a compressor without a mean, or a momentum that is
/// not the optimizers'. Its memory has been chosen.
std::vector<Problem> check_differences(const nlohmann::json& spec, const nlohmann::json& catalog);

}  // namespace weir::protocol
