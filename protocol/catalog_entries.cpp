#include "protocol/catalog_entries.hpp"

#include <algorithm>

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

json fits_of(const json& compressor, const json& params) {
  for (const json& variant : compressor.value("variants", json::array())) {
    const json& values = variant.at("params");
    const bool same = std::all_of(values.items().begin(), values.items().end(), [&](const auto& value) {
      return params.is_object() && params.contains(value.key()) && params.at(value.key()) == value.value();
    });
    if (same) return variant;
  }
  json usual = compressor.value("traits", json::object());
  usual["memory_misfits"] = compressor.value("memory_misfits", json::object());
  for (const char* misfit : {"hops_misfit", "differences_misfit", "neighbours_misfit", "pushes_misfit"}) {
    if (compressor.contains(misfit)) usual[misfit] = compressor.at(misfit);
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
