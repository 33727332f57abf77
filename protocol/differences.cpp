#include "protocol/differences.hpp"

#include "protocol/catalog_entries.hpp"

namespace weir::protocol {
namespace {

using nlohmann::json;

/// The memories that fit a compressor with differences between models.
json memories_for(const json& fits, const json& catalog) {
  json fitting = json::array();
  for (const auto& memory : catalog.at("memories")) {
    const bool misfit = fits.at("memory_misfits").contains(memory.at("name")) || memory.contains("differences_misfit");
    if (!misfit) fitting.push_back(memory.at("name"));
  }
  return fitting;
}

std::string exchanged_by_mode(const json& spec, const json& catalog) {
  const json* mode = find_entry(catalog, "modes", spec.at("training").at("mode").get<std::string>());
  return mode == nullptr ? "gradients" : mode->value("exchanges", "gradients");
}

}  // namespace

std::string exchanged(const json& spec, const json& catalog) {
  const std::string usual = exchanged_by_mode(spec, catalog);
  const bool models = usual == "gradients" && spec.at("compression").value("apply_to", "") == "models";
  return models ? "differences" : usual;
}

std::string default_memory(const json& compressor, bool differences) {
  const std::string usual = compressor.value("default_memory", "none");
  return differences ? compressor.value("memory_for_differences", usual) : usual;
}

std::vector<Problem> check_differences(const json& spec, const json& catalog) {
  const json& part = spec.at("compression");
  const json* compressor = find_entry(catalog, "compressors", part.at("name").get<std::string>());
  if (compressor == nullptr || part.at("memory").is_null() || exchanged(spec, catalog) != "differences") {
    return {};
  }
  const json* memory = find_entry(catalog, "memories", part.at("memory").get<std::string>());
  const bool by_mode = exchanged_by_mode(spec, catalog) == "differences";
  const std::string why = by_mode ? "training mode \"" + spec.at("training").at("mode").get<std::string>() + "\""
                                  : "compression.apply_to \"models\"";
  const std::string misfit = "\" does not fit " + why + ": workers exchange differences between their models, and ";
  const json fits = fits_of(*compressor, part.at("params"));
  std::vector<Problem> problems;
  if (const auto reason = fits.find("differences_misfit"); reason != fits.end()) {
    problems.push_back(
        {"/compression/name", "compressor \"" + compressor->value("name", "") + misfit + reason->get<std::string>()});
  }
  if (memory == nullptr) return problems;
  const std::string named = "memory \"" + memory->value("name", "") + misfit;
  if (const auto reason = memory->find("differences_misfit"); reason != memory->end()) {
    problems.push_back({"/compression/memory",
                        named + reason->get<std::string>() + "; it takes " + memories_for(fits, catalog).dump()});
  }
  for (const auto& name : params_of_own_momentum(*memory, part.at("memory_params"))) {
    problems.push_back({"/compression/memory_params/" + name,
                        named + "with this momentum it replaces the optimizers', which they have applied; it takes " +
                            memory->at("params").at("properties").at(name).at("default").dump()});
  }
  return problems;
}

}  // namespace weir::protocol
