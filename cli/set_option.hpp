#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.hpp"

namespace weir::cli {

/// Applies `--set PATH=VALUE` to a job spec: PATH is member names joined by dots ("training.epochs"), created where
/// missing; VALUE is JSON if it parses as such (3, 0.5, true, null, ["a"], "text in quotes"), else text.
/// Fails with: invalid_argument (not UTF-8, no "=", an empty name, a path through a value that is not an object).
Result<void> apply_set(nlohmann::json& spec, const std::string& assignment);

}  // namespace weir::cli
