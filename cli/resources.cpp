#include "cli/resources.hpp"

#include <charconv>
#include <cmath>
#include <sstream>

#include "base/errc.hpp"

namespace weir::cli {
namespace {

const std::map<std::string, double, std::less<>> units{{"", 1},
                                                       {"B", 1},
                                                       {"kB", 1e3},
                                                       {"KB", 1e3},
                                                       {"MB", 1e6},
                                                       {"GB", 1e9},
                                                       {"TB", 1e12},
                                                       {"KiB", 1024},
                                                       {"MiB", 1048576.},
                                                       {"GiB", 1073741824.},
                                                       {"TiB", 1099511627776.}};

Result<double> amount(const std::string& text) {
  double value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto unit = units.find(std::string_view(end, text.data() + text.size()));
  if (failed != std::errc() || unit == units.end() || !std::isfinite(value) || value < 0) {
    return Error{Errc::invalid_argument, "\"" + text + "\" is no amount; write 4, 0.5 or 8GiB"};
  }
  return value * unit->second;
}

}  // namespace

Result<std::map<std::string, std::string>> parse_labels(const std::string& text) {
  std::map<std::string, std::string> labels;
  std::stringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Error{Errc::invalid_argument, "\"" + part + "\": write it as name=value"};
    }
    if (!labels.emplace(part.substr(0, equals), part.substr(equals + 1)).second) {
      return Error{Errc::invalid_argument, "\"" + part.substr(0, equals) + "\" is given twice"};
    }
  }
  return labels;
}

Result<protocol::Resources> parse_resources(const std::string& text) {
  auto pairs = parse_labels(text);
  if (!pairs) return pairs.error();
  protocol::Resources resources;
  for (const auto& [name, value] : *pairs) {
    auto number = amount(value);
    if (!number) return number.error().within(name);
    resources[name] = *number;
  }
  return resources;
}

}  // namespace weir::cli
