#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "protocol/schema.hpp"

namespace weir::protocol {

/// What does not fit in a job whose workers mix their models with those of neighbours: a compressor of which all
/// workers need the results, a memory, or models in place of gradients. `spec` follows the schema, and its memory has
/// been chosen.
std::vector<Problem> check_neighbours(const nlohmann::json& spec, const nlohmann::json& catalog);

/// The same of a job whose workers push gradients to servers.
std::vector<Problem> check_pushes(const nlohmann::json& spec, const nlohmann::json& catalog);

/// Settings that would change nothing in a job of this mode, but for those that follow from the other functions here:
/// what is made of the workers' values where there is one worker, and buckets where nothing goes in buckets. `spec`
/// follows the schema.
std::vector<Problem> check_settings_without_effect(const nlohmann::json& spec, const nlohmann::json& catalog);

/// A learning rate of the optimizer beside one of the mode in its place. `spec` follows the schema.
std::vector<Problem> check_learning_rate(const nlohmann::json& spec, const nlohmann::json& catalog);

/// Momentum of an optimizer that leaves it to the compression. `spec` follows the schema, and its memory has been
/// chosen.
std::vector<Problem> check_momentum(const nlohmann::json& spec, const nlohmann::json& catalog);

/// Says which part of the compression has a momentum in place of the optimizer's; empty if none has. `spec` follows the
/// schema.
std::string owner_of_momentum(const nlohmann::json& spec, const nlohmann::json& catalog);

/// Resources of processes that a mode with this entry of the catalog does not have, or GPUs for one that has no use for
/// them: only workers have. `spec` follows the schema.
std::vector<Problem> check_role_resources(const nlohmann::json& spec, const nlohmann::json& mode);

/// Sets where gradients are limited, if the job does not say: in their mean, where workers agree on one; else in each
/// worker's own, and then a job that asks for the mean has a problem. Momentum is no mean of gradients, nor are signs.
/// `spec` follows the schema, and its memory has been chosen.
std::vector<Problem> complete_clip(nlohmann::json& spec, const nlohmann::json& catalog);

/// What no schema says of a mode's parameters, which are complete: where one depends on another or on the number of
/// workers.
std::vector<Problem> check_mode_params(const nlohmann::json& spec);

/// Whether workers can be told to send less: by what the catalog says of the compressor and the topology. `spec`
/// follows the schema, and the mode's parameters are complete.
std::vector<Problem> check_adaptation(const nlohmann::json& spec, const nlohmann::json& catalog);

}  // namespace weir::protocol
