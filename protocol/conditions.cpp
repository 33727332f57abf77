#include "protocol/conditions.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace weir::protocol {
namespace {

using nlohmann::json;

constexpr std::size_t workers_max = 1024;
constexpr double slowdown_max = 1000;
constexpr double rate_min = 1000;  ///< bits per second

const json& properties() {
  static const json all = {
      {"slowdown",
       {{"type", "array"},
        {"description",
         "By rank: how many times as long forward and backward passes take; the rest is slept. 1 for the "
         "ranks that are not listed."},
        {"items", {{"type", "number"}, {"minimum", 1}, {"maximum", slowdown_max}}},
        {"maxItems", workers_max},
        {"default", json::array()}}},
      {"link_rate",
       {{"type", "array"},
        {"description",
         "By rank: how fast its sockets carry gradients in each direction, as \"100mbit\" (kbit, mbit, "
         "gbit), or \"none\" for no limit, as for the ranks that are not listed."},
        {"items", {{"type", "string"}, {"minLength", 1}, {"maxLength", 32}}},
        {"maxItems", workers_max},
        {"default", json::array()}}}};
  return all;
}

}  // namespace

std::optional<double> parse_rate(std::string_view text) {
  if (text == "none") return 0;
  constexpr std::array<std::pair<std::string_view, double>, 3> units{{{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}}};
  for (const auto& [unit, bits] : units) {
    if (!text.ends_with(unit)) continue;
    const std::string_view digits = text.substr(0, text.size() - unit.size());
    double number = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), number, std::chars_format::fixed);
    if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
    const double rate = number * bits;
    return rate >= rate_min && rate <= 1e15 ? std::optional(rate) : std::nullopt;
  }
  return std::nullopt;
}

double Conditions::link_bytes_per_second(std::uint32_t rank) const {
  return rank < link_rate.size() ? parse_rate(link_rate[rank]).value_or(0) / 8 : 0;
}

json with_conditions(json schema) {
  schema["properties"].update(properties());
  return schema;
}

json without_conditions(json params) {
  if (params.is_object()) {
    for (const auto& [name, property] : properties().items()) params.erase(name);
  }
  return params;
}

Conditions read_conditions(const json& params) {
  Conditions read;
  if (!params.is_object()) return read;
  read.slowdown = params.value("slowdown", std::vector<double>());
  read.link_rate = params.value("link_rate", std::vector<std::string>());
  return read;
}

bool limits_links(const json& spec) {
  const json rates = spec.at("training").at("params").value("link_rate", json::array());
  return std::ranges::any_of(rates, [](const json& rate) { return rate != "none"; });
}

std::vector<Problem> check_conditions(const json& spec) {
  const json& params = spec.at("training").at("params");
  const auto workers = spec.at("resources").at("workers").get<std::uint64_t>();
  std::vector<Problem> problems;
  for (const auto& [name, property] : properties().items()) {
    const auto list = params.find(name);
    if (list == params.end() || !list->is_array()) continue;
    const std::string at = "/training/params/" + name;
    if (list->size() > workers) {
      problems.push_back({at, "has " + std::to_string(list->size()) + " entries, and the job has " +
                                  std::to_string(workers) + (workers == 1 ? " worker" : " workers")});
    }
    if (name != "link_rate") continue;
    for (std::size_t i = 0; i < list->size(); ++i) {
      const json& rate = (*list)[i];
      if (!rate.is_string() || parse_rate(rate.get_ref<const std::string&>())) continue;
      problems.push_back({at + "/" + std::to_string(i),
                          rate.dump() +
                              " is no rate: write \"none\", or a number of kbit, mbit or gbit from 1kbit on, as "
                              "\"100mbit\""});
    }
  }
  return problems;
}

}  // namespace weir::protocol
