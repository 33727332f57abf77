#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace weir::compressors {

/// The bounds of a number, named as in JSON schema.
struct Range {
  std::optional<double> minimum = std::nullopt;
  std::optional<double> exclusive_minimum = std::nullopt;
  std::optional<double> maximum = std::nullopt;
};

/// Checks `params` (null means none given) against the schema and returns them with defaults filled in. Fails with:
/// invalid_argument, naming every parameter that is wrong and, for an unknown one, the nearest known name.
Result<nlohmann::json> checked_params(std::string_view owner, const nlohmann::json& schema, nlohmann::json params);

/// The JSON schema of a number.
nlohmann::json number_schema(std::string_view type, const Range& range, std::string_view description);

/// Names a member of Options: a pointer to a member of type T, or a function from Options& to T&.
template <class Of, class Options, class T>
concept PlaceOf = std::same_as<std::invoke_result_t<const Of&, Options&>, T&>;

/// The parameters of one compressor or memory, declared once: their JSON schema, their validation, and the members of
/// the plain struct Options that receive the values. The initial values of Options are the defaults.
///
///     const auto params =
///         Params<Options>("topk").number("ratio", &Options::ratio, {.maximum = 1}, "Share kept.");
template <class Options>
class Params {
 public:
  explicit Params(std::string_view owner) : owner_(owner) {
    schema_ = {{"type", "object"}, {"properties", nlohmann::json::object()}, {"additionalProperties", false}};
  }

  template <PlaceOf<Options, double> Of>
  Params& number(const char* name, Of of, const Range& range, std::string_view description) {
    return add<double>(name, of, number_schema("number", range, description));
  }
  template <PlaceOf<Options, std::int64_t> Of>
  Params& integer(const char* name, Of of, const Range& range, std::string_view description) {
    return add<std::int64_t>(name, of, number_schema("integer", range, description));
  }
  template <PlaceOf<Options, bool> Of>
  Params& flag(const char* name, Of of, std::string_view description) {
    return add<bool>(name, of, {{"type", "boolean"}, {"description", description}});
  }
  template <PlaceOf<Options, std::string> Of>
  Params& choice(const char* name, Of of, const std::vector<std::string_view>& among, std::string_view description) {
    return add<std::string>(name, of, {{"type", "string"}, {"enum", among}, {"description", description}});
  }
  template <PlaceOf<Options, std::vector<double>> Of>
  Params& numbers(const char* name, Of of, const Range& each, std::string_view description) {
    nlohmann::json items = number_schema("number", each, "");
    items.erase("description");
    return add<std::vector<double>>(name, of, {{"type", "array"}, {"items", items}, {"description", description}});
  }
  /// A number that may also be null, which is its default.
  template <PlaceOf<Options, std::optional<double>> Of>
  Params& optional_number(const char* name, Of of, const Range& range, std::string_view description) {
    nlohmann::json property = number_schema("number", range, description);
    property["type"] = nlohmann::json::array({"number", "null"});
    property["default"] = nullptr;
    schema_["properties"][name] = std::move(property);
    readers_.push_back([name, of](const nlohmann::json& from, Options& to) {
      if (!from.at(name).is_null()) std::invoke(of, to) = from.at(name).template get<double>();
    });
    return *this;
  }

  const nlohmann::json& schema() const { return schema_; }

  /// Checks `params` and returns the options. Fails with: invalid_argument.
  Result<Options> parse(const nlohmann::json& params) const {
    const auto checked = checked_params(owner_, schema_, params);
    if (!checked) return checked.error();
    Options options;
    for (const auto& read : readers_) read(*checked, options);
    return options;
  }

 private:
  template <class T, class Of>
  Params& add(const char* name, Of of, nlohmann::json property) {
    Options defaults;
    property["default"] = std::invoke(of, defaults);
    schema_["properties"][name] = std::move(property);
    readers_.push_back(
        [name, of](const nlohmann::json& from, Options& to) { std::invoke(of, to) = from.at(name).template get<T>(); });
    return *this;
  }

  std::string owner_;
  nlohmann::json schema_;
  std::vector<std::function<void(const nlohmann::json&, Options&)>> readers_;
};

}  // namespace weir::compressors
