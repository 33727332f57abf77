#include "training/optimizers/groups.hpp"

#include <algorithm>

#include "base/errc.hpp"
#include "protocol/parameter_groups.hpp"

namespace weir::training {

protocol::Params<ParameterGroup> ParameterGroup::params() {
  return protocol::Params<ParameterGroup>()
      .required_text("parameters", &ParameterGroup::parameters, 200,
                     "A pattern of their names, in which * stands for any characters.")
      .number("lr_scale", &ParameterGroup::lr_scale, {.minimum = 0}, "Times the learning rate; 0: they do not change.")
      .optional_number("weight_decay", &ParameterGroup::weight_decay, {.minimum = 0}, "Null: the optimizer's.");
}

std::vector<ParameterRule> rules_of(const OptimizerSetting& setting, const std::vector<ParameterGroup>& groups,
                                    double weight_decay, bool no_decay) {
  std::vector<ParameterRule> rules;
  for (std::size_t i = 0; i < setting.parameters.size(); ++i) {
    const bool spared = !setting.decay_applies(i, no_decay);
    ParameterRule rule{.weight_decay = spared ? 0 : weight_decay, .spared = spared};
    const auto group = std::ranges::find_if(groups, [&](const ParameterGroup& of) {
      return protocol::group_takes(of.parameters, setting.parameters[i].name);
    });
    if (group != groups.end()) {
      rule.lr_scale = group->lr_scale;
      if (group->weight_decay) rule = {group->lr_scale, *group->weight_decay, false};
    }
    rules.push_back(rule);
  }
  return rules;
}

Result<void> check_groups(const nlohmann::json& optimizer, const std::vector<NamedTensor>& parameters) {
  std::vector<std::string> names;
  for (const auto& parameter : parameters) names.push_back(parameter.name);
  const auto problems = protocol::check_groups(optimizer, names);
  if (problems.empty()) return {};
  return Error{Errc::invalid_argument, problems.front().pointer + ": " + problems.front().message};
}

}  // namespace weir::training
