#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "protocol/schema.hpp"
#include "worker/catalog.hpp"

namespace weir::worker::testing {

inline const nlohmann::json& all() {
  static const nlohmann::json made = catalog();
  return made;
}

/// The values that other parameters must have for one with this schema to change anything, unless their defaults do.
inline nlohmann::json needed_by(const nlohmann::json& property, const nlohmann::json& properties) {
  using nlohmann::json;
  json needed = json::object();
  const json conditions = property.value("onlyWhere", json::object());
  for (const auto& [other, condition] : conditions.items()) {
    const json& its = properties.at(other);
    json values{its.at("default")};
    for (const json& value : its.value("enum", json{false, true})) values.push_back(value);
    for (const char* limit : {"minimum", "maximum"}) {
      if (its.contains(limit)) values.push_back(its.at(limit));
    }
    for (json value : values) {
      if (!protocol::check_and_complete(condition, value).empty()) continue;
      if (value != its.at("default")) needed[other] = value;
      break;
    }
  }
  return needed;
}

/// The parameters of an entry with each value of each flag and of each choice, and with what those need; the others at
/// their defaults.
inline std::vector<nlohmann::json> settings_of(const nlohmann::json& entry) {
  using nlohmann::json;
  std::vector<json> settings{json::object()};
  for (const auto& [name, property] : entry.at("params").at("properties").items()) {
    const bool flag = property.value("type", json()) == "boolean";
    for (const json& value : flag ? json{false, true} : property.value("enum", json::array())) {
      settings.push_back(needed_by(property, entry.at("params").at("properties")));
      settings.back()[name] = value;
    }
  }
  return settings;
}

}  // namespace weir::worker::testing
