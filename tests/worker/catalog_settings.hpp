#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "worker/catalog.hpp"

namespace weir::worker::testing {

inline const nlohmann::json& all() {
  static const nlohmann::json made = catalog();
  return made;
}

/// The parameters of an entry with each value of each flag and of each choice, the others at their defaults.
inline std::vector<nlohmann::json> settings_of(const nlohmann::json& entry) {
  using nlohmann::json;
  std::vector<json> settings{json::object()};
  for (const auto& [name, property] : entry.at("params").at("properties").items()) {
    const bool flag = property.value("type", json()) == "boolean";
    for (const json& value : flag ? json{false, true} : property.value("enum", json::array())) {
      settings.push_back({{name, value}});
    }
  }
  return settings;
}

}  // namespace weir::worker::testing
