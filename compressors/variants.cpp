#include "compressors/variants.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
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

/// A parameter that is a number with more values than a switch has.
struct Number {
  std::string name;
  bool whole;
  double unit;  ///< of a whole number
  double least;
  double usual;
  double most;

  json value(double number) const { return whole ? json(static_cast<std::int64_t>(number)) : json(number); }
};

struct Parameters {
  std::vector<Switch> switches;
  std::vector<Number> numbers;
};

Number number_of(const std::string& name, const json& property) {
  constexpr double unlimited = 1e9;
  const bool whole = property.at("type") == "integer";
  const auto limit = [&](const char* exclusive, double towards) {
    const double end = property.at(exclusive);
    return whole ? (towards > 0 ? end + 1 : end - 1) : std::nextafter(end, towards);
  };
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return {.name = name,
          .whole = whole,
          .unit = property.value("multipleOf", 1.0),
          .least = property.contains("exclusiveMinimum") ? limit("exclusiveMinimum", infinity)
                                                         : property.value("minimum", -unlimited),
          .usual = property.at("default"),
          .most = property.contains("exclusiveMaximum") ? limit("exclusiveMaximum", -infinity)
                                                        : property.value("maximum", unlimited)};
}

Parameters parameters_of(const json& schema) {
  constexpr int few = 16;
  Parameters found;
  for (const auto& [name, property] : schema.at("properties").items()) {
    if (property.contains("enum")) {
      found.switches.push_back({name, property.at("enum").get<std::vector<json>>()});
    } else if (property.at("type") == "boolean") {
      found.switches.push_back({name, {false, true}});
    } else if (property.at("default").is_number()) {
      const Number number = number_of(name, property);
      if (!number.whole || number.most - number.least >= few * number.unit) {
        found.numbers.push_back(number);
        continue;
      }
      Switch few_values{name, {}};
      for (double at = number.least; at <= number.most; at += number.unit)
        few_values.values.push_back(number.value(at));
      found.switches.push_back(std::move(few_values));
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

/// What fits with some parameters; null if the compressor refuses them.
using FitsAt = std::function<json(const json& params)>;

/// Where, between two values of a number, what fits changes: the last value like the left one, and the next one.
std::pair<double, double> change_between(const Number& number, double left, double right, const json& like_left,
                                         const std::function<json(double)>& fits_at) {
  for (;;) {
    const double half = left + (right - left) / 2;
    const double middle = number.whole ? std::floor(half / number.unit) * number.unit : half;
    if (!(middle > left && middle < right)) return {left, right};
    (fits_at(middle) == like_left ? left : right) = middle;
  }
}

/// What fits by the size of one number beside `params`: [{"params": {number: its limits}, and what fits}], or an empty
/// list if it is the same for all sizes. Between an end of the range and the default it changes once at most.
json by_size(const Number& number, const json& params, const FitsAt& fits) {
  const auto fits_at = [&](double value) {
    json with = params;
    with[number.name] = number.value(value);
    return fits(with);
  };
  json parts = json::array();
  json limits = json::object();
  double last = number.least;
  json like_last = fits_at(last);
  const auto end_part = [&] {
    parts.push_back(like_last);
    parts.back()["params"] = {{number.name, limits}};
  };
  for (const double next : {number.usual, number.most}) {
    json like_next = fits_at(next);
    if (like_last.is_null()) like_last = like_next;
    if (!like_next.is_null() && like_next != like_last) {
      const auto [end, begin] = change_between(number, last, next, like_last, fits_at);
      limits["maximum"] = number.value(end);
      end_part();
      limits = {{"minimum", number.value(begin)}};
      like_last = std::move(like_next);
    }
    last = next;
  }
  if (parts.empty()) return parts;
  end_part();
  return parts;
}

}  // namespace

json fits_of(const Compressor& compressor, std::span<const MemoryEntry> memories) {
  json misfits = json::object();
  for (const MemoryEntry& memory : memories) {
    if (const auto reason = memory.misfit(compressor)) misfits[memory.name] = *reason;
  }
  const Traits traits = compressor.traits();
  json fits = {{"votes", traits.votes},
               {"owners_keep_residual", owners_keep_residual(compressor)},
               {"memory_misfits", std::move(misfits)}};
  if (const auto reason = no_owners(traits)) fits["owners_misfit"] = *reason;
  if (const auto reason = no_regions(traits)) fits["regions_misfit"] = *reason;
  if (const auto reason = no_hops(compressor)) fits["partners_misfit"] = *reason;
  if (const auto reason = no_differences(traits)) fits["differences_misfit"] = *reason;
  if (const auto reason = no_neighbours(compressor)) fits["neighbours_misfit"] = *reason;
  if (const auto reason = no_pushes(traits)) fits["pushes_misfit"] = *reason;
  return fits;
}

json variants_of(const CompressorEntry& entry, std::span<const MemoryEntry> memories) {
  const auto [switches, numbers] = parameters_of(entry.schema());
  const FitsAt fits_at = [&](const json& params) {
    const auto made = entry.make(params);
    return made ? fits_of(**made, memories) : json();
  };
  std::set<std::size_t> all;
  for (std::size_t i = 0; i < switches.size(); ++i) all.insert(i);
  std::map<Setting, json> parts;  // by the size of a number
  Setting setting(switches.size());
  do {
    const json params = params_of(switches, setting, all);
    json what = fits_at(params);
    if (what.is_null()) continue;
    json by_number = json::array();
    for (const Number& number : numbers) {
      if (by_number.empty()) by_number = by_size(number, params, fits_at);
    }
    if (by_number.empty()) {
      what["params"] = json::object();
      by_number.push_back(std::move(what));
    }
    parts[setting] = std::move(by_number);
  } while (advance(switches, setting));

  std::set<std::size_t> relevant;
  for (const std::size_t i : all) {
    std::map<Setting, json> of_others;
    for (const auto& [at, what] : parts) {
      Setting others = at;
      others[i] = 0;
      const auto [beside, first] = of_others.emplace(std::move(others), what);
      if (!first && beside->second != what) relevant.insert(i);
    }
  }
  json variants = json::array();
  std::set<json> seen;
  for (const auto& [at, of_setting] : parts) {
    const json params = params_of(switches, at, relevant);
    if (!seen.insert(params).second) continue;
    for (json part : of_setting) {
      part["params"].update(params);
      if (!part["params"].empty()) variants.push_back(std::move(part));
    }
  }
  return variants;
}

}  // namespace weir::compressors
