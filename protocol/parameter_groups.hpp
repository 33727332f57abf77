#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "protocol/schema.hpp"

namespace weir::protocol {

/// Whether a group with this pattern has a parameter of this name: `*` stands for any characters, `?` for one, and
/// `[...]` for one of those (fnmatch(3)).
bool group_takes(const std::string& pattern, const std::string& name);

/// The groups of training.optimizer.groups that change nothing, because no parameter of the model fits the pattern that
/// no group before has. `optimizer`: training.optimizer of a checked job spec. `names`: of all parameters of the model.
/// The problems' pointers are those of a job spec.
std::vector<Problem> check_groups(const nlohmann::json& optimizer, const std::vector<std::string>& names);

}  // namespace weir::protocol
