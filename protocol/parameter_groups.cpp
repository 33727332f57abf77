#include "protocol/parameter_groups.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace weir::protocol {
namespace {

/// Some of the names, for a message.
std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t shown_max = 6;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), shown_max); ++i) text += (i == 0 ? "" : ", ") + names[i];
  return names.size() > shown_max ? text + ", ..." : text;
}

}  // namespace

bool group_takes(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

std::vector<Problem> check_groups(const nlohmann::json& optimizer, const std::vector<std::string>& names) {
  std::vector<Problem> problems;
  const auto groups = optimizer.find("groups");
  if (groups == optimizer.end()) return problems;
  std::vector<std::string> left = names;
  for (std::size_t i = 0; i < groups->size(); ++i) {
    const auto& pattern = (*groups)[i].at("parameters").get_ref<const std::string&>();
    const auto takes = [&](const std::string& name) { return group_takes(pattern, name); };
    if (std::erase_if(left, takes) > 0) continue;
    const bool taken = std::ranges::any_of(names, takes);
    problems.push_back({"/training/optimizer/groups/" + std::to_string(i) + "/parameters",
                        taken ? "the groups before have taken all parameters that fit \"" + pattern + "\""
                              : "no parameter of the model fits \"" + pattern + "\"; there are " + some_of(names)});
  }
  return problems;
}

}  // namespace weir::protocol
