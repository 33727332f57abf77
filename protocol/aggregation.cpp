#include "protocol/aggregation.hpp"

#include <string>

#include "protocol/catalog_entries.hpp"

namespace weir::protocol {

using nlohmann::json;

std::vector<Problem> check_aggregation(const json& spec, const json& catalog) {
  const json& part = spec.at("compression");
  const std::string aggregation = part.value("aggregation", "mean");
  const json* compressor = find_entry(catalog, "compressors", part.at("name").get<std::string>());
  if (compressor == nullptr || aggregation == "mean") return {};
  const auto refuse = [&](const std::string& reason) {
    const Problem problem{"/compression/aggregation", "\"" + aggregation + "\" does not fit compressor \"" +
                                                          compressor->value("name", "") + "\": " + reason};
    return std::vector<Problem>{problem};
  };
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
