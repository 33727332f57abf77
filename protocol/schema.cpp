#include "protocol/schema.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

namespace weir::protocol {
namespace {

using nlohmann::json;

/// A type name of JSON Schema with its article.
std::string with_article(std::string_view type) {
  const bool vowel = type.find_first_of("aeiou") == 0;
  return type == "null" ? "null" : (vowel ? "an " : "a ") + std::string(type);
}

std::string_view type_of(const json& value) {
  switch (value.type()) {
    case json::value_t::null: return "null";
    case json::value_t::object: return "object";
    case json::value_t::array: return "array";
    case json::value_t::string: return "string";
    case json::value_t::boolean: return "boolean";
    case json::value_t::number_integer:
    case json::value_t::number_unsigned: return "integer";
    default: return "number";
  }
}

/// Whether the value is of the type; 2.0 is an integer and becomes 2.
bool is_of_type(json& value, std::string_view type) {
  const auto actual = type_of(value);
  if (type == actual) return true;
  if (type == "number") return actual == "integer";
  if (type == "integer" && actual == "number") {
    const double number = value.get<double>();
    if (std::trunc(number) != number || std::abs(number) > 9007199254740992.0) return false;
    value = static_cast<std::int64_t>(number);
    return true;
  }
  return false;
}

/// Characters, as JSON Schema counts them: UTF-8 lead bytes.
std::size_t length_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

constexpr std::size_t suggestions_max = 20;  // for the first problems: each compares a name with all known ones

/// Stops at the first problem that is too many.
class Checker {
 public:
  std::vector<Problem> problems;

  void check(const json& schema, json& value, const std::string& at) {
    if (!schema.is_object() || full()) return;  // the schema `true` allows anything
    if (!check_type(schema, value, at) || !check_enum(schema, value, at)) return;
    if (value.is_number()) check_number(schema, value.get<double>(), at);
    if (value.is_string()) check_length(schema, length_of(value.get_ref<const std::string&>()), "Length", at);
    if (value.is_array()) check_array(schema, value, at);
    if (value.is_object()) check_object(schema, value, at);
  }

 private:
  void problem(const std::string& at, std::string message, std::string suggestion = {}) {
    problems.push_back({at, std::move(message), std::move(suggestion)});
  }

  bool full() const { return problems.size() > problems_max; }

  std::string suggestion_for(const std::string& name, const std::vector<std::string>& known) const {
    return problems.size() < suggestions_max ? nearest_name(name, known) : std::string();
  }

  bool check_type(const json& schema, json& value, const std::string& at) {
    const auto type = schema.find("type");
    if (type == schema.end()) return true;
    const json allowed = type->is_array() ? *type : json::array({*type});
    for (const auto& name : allowed) {
      if (is_of_type(value, name.get_ref<const std::string&>())) return true;
    }
    std::string message = "must be ";
    for (std::size_t i = 0; i < allowed.size(); ++i) {
      message += (i == 0 ? "" : " or ") + with_article(allowed[i].get_ref<const std::string&>());
    }
    problem(at, message + ", not " + with_article(type_of(value)));
    return false;
  }

  bool check_enum(const json& schema, const json& value, const std::string& at) {
    if (const auto only = schema.find("const"); only != schema.end() && *only != value) {
      problem(at, "must be " + only->dump());
      return false;
    }
    const auto allowed = schema.find("enum");
    if (allowed == schema.end() || std::find(allowed->begin(), allowed->end(), value) != allowed->end()) return true;
    std::string message = "must be one of";
    std::vector<std::string> names;
    for (const auto& one : *allowed) {
      message += (names.empty() ? " " : ", ") + one.dump();
      names.push_back(one.is_string() ? one.get<std::string>() : one.dump());
    }
    problem(at, message, value.is_string() ? suggestion_for(value.get_ref<const std::string&>(), names) : "");
    return false;
  }

  void check_number(const json& schema, double number, const std::string& at) {
    const auto limit = [&](const char* name) -> std::optional<double> {
      const auto found = schema.find(name);
      return found == schema.end() ? std::nullopt : std::optional(found->get<double>());
    };
    const auto refuse = [&](const char* relation, const char* name) {
      problem(at, std::string("must be ") + relation + " " + schema.at(name).dump());
    };
    if (auto least = limit("minimum"); least && !(number >= *least)) refuse("at least", "minimum");
    if (auto most = limit("maximum"); most && !(number <= *most)) refuse("at most", "maximum");
    if (auto least = limit("exclusiveMinimum"); least && !(number > *least)) refuse("more than", "exclusiveMinimum");
    if (auto most = limit("exclusiveMaximum"); most && !(number < *most)) refuse("less than", "exclusiveMaximum");
    if (auto unit = limit("multipleOf"); unit && std::fmod(number, *unit) != 0) refuse("a multiple of", "multipleOf");
  }

  void check_length(const json& schema, std::size_t length, const std::string& what, const std::string& at) {
    const std::string unit = what == "Length" ? " characters" : what == "Items" ? " items" : " names";
    if (const auto least = schema.find("min" + what); least != schema.end() && length < least->get<std::size_t>()) {
      problem(at, "must have at least " + least->dump() + unit);
    }
    if (const auto most = schema.find("max" + what); most != schema.end() && length > most->get<std::size_t>()) {
      problem(at, "must have at most " + most->dump() + unit);
    }
  }

  void check_array(const json& schema, json& value, const std::string& at) {
    check_length(schema, value.size(), "Items", at);
    const auto items = schema.find("items");
    if (items == schema.end()) return;
    for (std::size_t i = 0; i < value.size() && !full(); ++i) {
      check(*items, value[i], pointer_to(at, std::to_string(i)));
    }
  }

  void check_object(const json& schema, json& value, const std::string& at) {
    static const json none = json::object();
    const auto before = problems.size();
    check_length(schema, value.size(), "Properties", at);
    check_names(schema, value, at);
    if (problems.size() > before) return;  // what has too many names, or too long ones, is looked at no closer
    const auto found = schema.find("properties");
    const json& properties = found == schema.end() ? none : *found;
    check_members(schema, properties, value, at);
    for (const auto& name : schema.value("required", json::array())) {
      if (!value.contains(name)) problem(pointer_to(at, name.get_ref<const std::string&>()), "is required");
    }
    for (const auto& [name, property] : properties.items()) {
      if (value.contains(name) || !property.is_object() || !property.contains("default")) continue;
      value[name] = property.at("default");
      check(property, value[name], pointer_to(at, name));
    }
    if (problems.size() > before) return;
    for (const auto& [name, property] : properties.items()) {
      if (property.is_object() && value.contains(name)) check_beside_others(property, value, name, at);
    }
    for (const auto& limit : schema.value("productsAtMost", json::array())) check_product(limit, value, at);
  }

  void check_names(const json& schema, const json& object, const std::string& at) {
    const auto names = schema.find("propertyNames");
    if (names == schema.end()) return;
    const auto longest = names->at("maxLength").get<std::size_t>();
    for (const auto& [name, unused] : object.items()) {
      if (length_of(name) <= longest) continue;
      return problem(at, "has a name of more than " + std::to_string(longest) + " characters");
    }
  }

  void check_members(const json& schema, const json& properties, json& object, const std::string& at) {
    const auto others = schema.find("additionalProperties");
    std::vector<std::string> names;
    for (const auto& [name, unused] : properties.items()) names.push_back(name);
    for (auto& [name, member] : object.items()) {
      if (full()) return;
      if (const auto known = properties.find(name); known != properties.end()) {
        check(*known, member, pointer_to(at, name));
      } else if (others != schema.end() && others->is_boolean() && !others->get<bool>()) {
        refuse_unknown(names, name, at);
      } else if (others != schema.end()) {
        check(*others, member, pointer_to(at, name));
      }
    }
  }

  /// What a property is beside others of the object, all of which are right by themselves.
  void check_beside_others(const json& property, const json& object, const std::string& name, const std::string& at) {
    const json& value = object.at(name);
    if (const auto other = property.find("atMost"); other != property.end()) {
      const json& most = object.at(other->get_ref<const std::string&>());
      if (value > most) problem(pointer_to(at, name), "must be at most " + other->dump() + ", which is " + most.dump());
    }
    if (!property.contains("onlyWhere") || value == property.at("default")) return;
    for (const auto& [other, condition] : property.at("onlyWhere").items()) {
      json copy = object.at(other);
      const auto unmet = check_and_complete(condition, copy);
      if (unmet.empty()) continue;
      problem(pointer_to(at, name),
              "has no effect here: for that, \"" + other + "\" " + unmet.front().message + "; leave it out");
      return;
    }
  }

  void check_product(const json& limit, const json& object, const std::string& at) {
    const json& names = limit.at("of");
    double product = 1;
    std::string factors;
    for (const auto& name : names) {
      const json& factor = object.at(name.get_ref<const std::string&>());
      product *= factor.get<double>();
      factors += (factors.empty() ? "" : " * ") + name.get<std::string>();
    }
    if (product <= limit.at("maximum").get<double>()) return;
    std::ostringstream text;
    text << "makes too many " << limit.value("what", "") << ": " << factors << " is " << std::fixed
         << std::setprecision(0) << product << ", and must be at most " << limit.at("maximum");
    problem(pointer_to(at, names.back().get_ref<const std::string&>()), text.str());
  }

  void refuse_unknown(const std::vector<std::string>& known, const std::string& name, const std::string& at) {
    const auto nearest = suggestion_for(name, known);
    std::string message = "is not a known field";
    if (!nearest.empty()) {
      message += "; did you mean \"" + nearest + "\"?";
    } else if (known.empty()) {
      message += "; none are taken here";
    } else {
      message += "; known are: ";
      for (const auto& one : known) message += (&one == &known.front() ? "" : ", ") + one;
    }
    problem(pointer_to(at, name), std::move(message), nearest);
  }
};

/// Optimal string alignment distance: insertions, deletions, substitutions and swaps of neighbours cost 1 each.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t swap = a[i - 1] == b[j - 1] ? 0 : 1;
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + swap});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::vector<Problem> check_and_complete(const json& schema, json& document, std::string_view pointer) {
  Checker checker;
  checker.check(schema, document, std::string(pointer));
  return first_of(std::move(checker.problems));
}

std::vector<Problem> first_of(std::vector<Problem> problems) {
  if (problems.size() <= problems_max) return problems;
  problems.resize(problems_max);
  problems.push_back({"", "and more: the first " + std::to_string(problems_max) + " problems are listed"});
  return problems;
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  constexpr std::size_t longest = 64;  // bounds the work that a hostile document can ask for
  if (name.size() > longest) return {};
  std::string nearest;
  std::size_t least = 1 + name.size() / 3;
  for (const auto& candidate : candidates) {
    if (candidate.size() > longest) continue;
    if (const auto distance = edit_distance(name, candidate); distance < least + (nearest.empty() ? 1 : 0)) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string pointer_to(std::string_view pointer, std::string_view token) {
  std::string result(pointer);
  result += '/';
  for (char c : token) {
    if (c == '~') {
      result += "~0";
    } else if (c == '/') {
      result += "~1";
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace weir::protocol
