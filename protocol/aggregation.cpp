#include "protocol/aggregation.hpp"

#include <string>

#include "protocol/catalog_entries.hpp"
#include "protocol/differences.hpp"

namespace weir::protocol {

using nlohmann::json;

std::vector<Problem> check_aggregation(const json& spec, const json& catalog) {
  const json& part = spec.at("compression");
  const std::string aggregation = part.value("aggregation", "mean");
  const json* compressor = find_entry(catalog, "compressors", part.at("name").get<std::string>());
  if (compressor == nullptr || aggregation == "mean") return {};
  const auto misfit = [&](const std::string& what, const std::string& reason) {
    const Problem problem{"/compression/aggregation", "\"" + aggregation + "\" does not fit " + what + ": " + reason};
    return std::vector<Problem>{problem};
  };
  const auto refuse = [&](const std::string& reason) {
    return misfit("compressor \"" + compressor->value("name", "") + "\"", reason);
  };
  const std::string what = exchanged(spec, catalog);
  const std::string mode = "training mode \"" + spec.at("training").at("mode").get<std::string>() + "\"";
  if (what == "models") {
    return misfit(mode, "neighbours mix models with the weights of their graph; it takes \"mean\"");
  }
  if (what == "pushes") {
    return misfit(mode, "servers apply each gradient for its share of a step; it takes \"mean\"");
  }
  if (fits_of(*compressor, part.at("params")).value("votes", false)) {
    return refuse("the workers agree on signs, each with one vote; it takes \"mean\"");
  }
  if (aggregation != "min" && aggregation != "max") return {};
  const json& traits = compressor->at("traits");
  const bool plain = traits.value("lossless", false) && traits.value("passes", json()) == json{"sum"};
  if (plain && part.at("memory") == "none") return {};
  return refuse("it is found among uncompressed values only, which compressor \"none\" sends");
}

}  // namespace weir::protocol
