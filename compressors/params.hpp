#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace weir::compressors {

/// The bounds of a number, as JSON schema says them.
struct Range {
  std::optional<double> minimum = std::nullopt;
  std::optional<double> exclusive_minimum = std::nullopt;
  std::optional<double> maximum = std::nullopt;
};

/// Checks `params` (null means none) against the schema and gives them with defaults filled in.
/// Fails with: invalid_argument, naming every parameter that is wrong and, for unknown ones, the nearest
/// known.
Result<nlohmann::json> checked_params(std::string_view owner, const nlohmann::json& schema, nlohmann::json params);

/// The property of a number or an array of numbers.
nlohmann::json number_schema(std::string_view type, const Range& range, std::string_view description);

/// The parameters of one compressor or memory, said once: their JSON schema, their validation and where each
/// value goes in the plain struct Options, whose initial values are the defaults.
///
///     const auto params = Params<Options>("topk").number("ratio", &Options::ratio, {.maximum = 1}, "Share
///     kept.");
template <class Options>
class Params {
 public:
  explicit Params(std::string_view owner) : owner_(owner) {
    schema_ = {{"type", "object"}, {"properties", nlohmann::json::object()}, {"additionalProperties", false}};
  }

  Params& number(const char* name, double Options::*member, const Range& range, std::string_view description) {
    return add(name, member, number_schema("number", range, description));
  }
  Params& integer(const char* name, std::int64_t Options::*member, const Range& range, std::string_view description) {
    return add(name, member, number_schema("integer", range, description));
  }
  Params& flag(const char* name, bool Options::*member, std::string_view description) {
    return add(name, member, {{"type", "boolean"}, {"description", description}});
  }
  Params& choice(const char* name, std::string Options::*member, const std::vector<std::string_view>& among,
                 std::string_view description) {
    return add(name, member, {{"type", "string"}, {"enum", among}, {"description", description}});
  }
  /// A choice within a part of the options.
  Params& choice(const char* name, std::string& (*of)(Options&), const std::vector<std::string_view>& among,
                 std::string_view description) {
    Options defaults;
    schema_["properties"][name] = {
        {"type", "string"}, {"enum", among}, {"description", description}, {"default", of(defaults)}};
    readers_.push_back([name, of](const nlohmann::json& from, Options& to) { of(to) = from.at(name); });
    return *this;
  }
  Params& numbers(const char* name, std::vector<double> Options::*member, const Range& each,
                  std::string_view description) {
    nlohmann::json items = number_schema("number", each, "");
    items.erase("description");
    return add(name, member, {{"type", "array"}, {"items", items}, {"description", description}});
  }
  /// A number that may also be null, its default.
  Params& optional_number(const char* name, std::optional<double> Options::*member, const Range& range,
                          std::string_view description) {
    nlohmann::json property = number_schema("number", range, description);
    property["type"] = nlohmann::json::array({"number", "null"});
    property["default"] = nullptr;
    schema_["properties"][name] = std::move(property);
    readers_.push_back([name, member](const nlohmann::json& from, Options& to) {
      if (!from.at(name).is_null()) to.*member = from.at(name).template get<double>();
    });
    return *this;
  }

  const nlohmann::json& schema() const { return schema_; }

  /// Fails with: invalid_argument.
  Result<Options> parse(const nlohmann::json& params) const {
    const auto checked = checked_params(owner_, schema_, params);
    if (!checked) return checked.error();
    Options options;
    for (const auto& read : readers_) read(*checked, options);
    return options;
  }

 private:
  template <class T>
  Params& add(const char* name, T Options::*member, nlohmann::json property) {
    property["default"] = Options{}.*member;
    schema_["properties"][name] = std::move(property);
    readers_.push_back(
        [name, member](const nlohmann::json& from, Options& to) { to.*member = from.at(name).template get<T>(); });
    return *this;
  }

  std::string owner_;
  nlohmann::json schema_;
  std::vector<std::function<void(const nlohmann::json&, Options&)>> readers_;
};

}  // namespace weir::compressors
