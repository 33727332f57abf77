#pragma once

#include <optional>
#include <string>
#include <vector>

#include "protocol/params.hpp"
#include "training/optimizers/optimizer.hpp"

namespace weir::training {

/// Parameters whose steps differ from those of the others, as torch.optim has groups of them. A parameter is in the
/// first group that takes it.
struct ParameterGroup {
  std::string parameters;              ///< a pattern of names (protocol/parameter_groups.hpp)
  double lr_scale = 1;                 ///< times the rate of the step; 0: they stay as they are
  std::optional<double> weight_decay;  ///< in place of the optimizer's, also where `no_decay` would spare them

  static protocol::Params<ParameterGroup> params();
};
inline constexpr std::size_t groups_max = 64;
inline constexpr std::string_view groups_mean =
    "Parameters, by patterns of their names, that have a rate or a weight decay of their own.";

/// What an optimizer does to one parameter.
struct ParameterRule {
  double lr_scale = 1;
  double weight_decay = 0;
  bool spared = false;  ///< from weight decay: by `no_decay` and the model's declaration

  bool operator==(const ParameterRule&) const = default;
};

/// The rule of each parameter of the setting.
std::vector<ParameterRule> rules_of(const OptimizerSetting& setting, const std::vector<ParameterGroup>& groups,
                                    double weight_decay, bool no_decay);

/// Fails with invalid_argument if a group takes no parameter. `optimizer`: its parameters in a job spec; `parameters`:
/// all of the model.
Result<void> check_groups(const nlohmann::json& optimizer, const std::vector<NamedTensor>& parameters);

}  // namespace weir::training
