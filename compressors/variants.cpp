#include "compressors/variants.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compressors/memories/misfit.hpp"

namespace weir::compressors {
namespace {

using nlohmann::json;

/// A parameter with few values.
struct Switch {
  std::string name;
  std::vector<json> values;
};

std::vector<Switch> switches_of(const json& schema) {
  std::vector<Switch> found;
  for (const auto& [name, property] : schema.at("properties").items()) {
    if (property.contains("enum")) {
      found.push_back({name, property.at("enum").get<std::vector<json>>()});
    } else if (property.value("type", json()) == "boolean") {
      found.push_back({name, {false, true}});
    }
  }
  return found;
}

/// Which value each of the switches has.
using Setting = std::vector<std::size_t>;

/// The next setting, of which the last switch changes first. Returns false after the last.
bool advance(const std::vector<Switch>& switches, Setting& setting) {
  for (std::size_t i = switches.size(); i-- > 0;) {
    if (++setting[i] < switches[i].values.size()) return true;
    setting[i] = 0;
  }
  return false;
}

json params_of(const std::vector<Switch>& switches, const Setting& setting, const std::set<std::size_t>& shown) {
  json params = json::object();
  for (const std::size_t i : shown) params[switches[i].name] = switches[i].values[setting[i]];
  return params;
}

}  // namespace

json fits_of(const Compressor& compressor, std::span<const MemoryEntry> memories) {
  json misfits = json::object();
  for (const MemoryEntry& memory : memories) {
    if (const auto reason = memory.misfit(compressor)) misfits[memory.name] = *reason;
  }
  const Traits traits = compressor.traits();
  json fits = {{"fits_owners", traits.fits_owners()},
               {"fits_split", traits.fits_split()},
               {"fits_hops", traits.fits_hops()},
               {"votes", traits.votes},
               {"memory_misfits", std::move(misfits)}};
  if (const auto reason = no_hops(compressor)) fits["hops_misfit"] = *reason;
  if (const auto reason = no_differences(traits)) fits["differences_misfit"] = *reason;
  if (const auto reason = no_neighbours(compressor)) fits["neighbours_misfit"] = *reason;
  if (const auto reason = no_pushes(traits)) fits["pushes_misfit"] = *reason;
  return fits;
}

json variants_of(const CompressorEntry& entry, std::span<const MemoryEntry> memories) {
  const auto switches = switches_of(entry.schema());
  std::set<std::size_t> all;
  for (std::size_t i = 0; i < switches.size(); ++i) all.insert(i);
  std::map<Setting, json> fits;
  Setting setting(switches.size());
  do {
    const auto made = entry.make(params_of(switches, setting, all));
    if (made) fits[setting] = fits_of(**made, memories);
  } while (advance(switches, setting));

  std::set<std::size_t> relevant;
  for (const auto& [at, what] : fits) {
    for (std::size_t i = 0; i < switches.size(); ++i) {
      Setting other = at;
      other[i] = 0;
      const auto beside = fits.find(other);
      if (beside == fits.end() || beside->second != what) relevant.insert(i);
    }
  }
  json variants = json::array();
  std::set<json> seen;
  for (const auto& [at, what] : fits) {
    json params = params_of(switches, at, relevant);
    if (relevant.empty() || !seen.insert(params).second) continue;
    json variant = what;
    variant["params"] = std::move(params);
    variants.push_back(std::move(variant));
  }
  return variants;
}

}  // namespace weir::compressors
