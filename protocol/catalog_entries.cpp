#include "protocol/catalog_entries.hpp"

#include <algorithm>

#include "protocol/schema.hpp"

namespace weir::protocol {

using nlohmann::json;

const json* find_entry(const json& catalog, const char* list, std::string_view name) {
  const auto entries = catalog.find(list);
  if (entries == catalog.end()) return nullptr;
  for (const auto& entry : *entries) {
    if (entry.value("name", "") == name) return &entry;
  }
  return nullptr;
}

namespace {

/// Whether a parameter is as a variant says: a value, or the limits of a number.
bool is_like(json param, const json& wanted) {
  return wanted.is_object() ? param.is_number() && check_and_complete(wanted, param).empty() : param == wanted;
}

}  // namespace

json fits_of(const json& compressor, const json& params) {
  for (const json& variant : compressor.value("variants", json::array())) {
    const json& wanted = variant.at("params");
    const bool alike = std::all_of(wanted.items().begin(), wanted.items().end(), [&](const auto& one) {
      return params.is_object() && is_like(params.value(one.key(), json()), one.value());
    });
    if (alike) return variant;
  }
  json usual = compressor.value("traits", json::object());
  usual["memory_misfits"] = compressor.value("memory_misfits", json::object());
  for (const auto& [what, reason] : compressor.items()) {
    if (what.ends_with("_misfit")) usual[what] = reason;
  }
  return usual;
}

std::vector<std::string> params_of_own_momentum(const json& memory, const json& params) {
  std::vector<std::string> found;
  for (const json& param : memory.value("momentum_params", json::array())) {
    const std::string name = param;
    const json usual = memory.at("params").at("properties").at(name).at("default");
    if (params.is_object() && params.value(name, usual) != usual) found.push_back(name);
  }
  return found;
}

}  // namespace weir::protocol
