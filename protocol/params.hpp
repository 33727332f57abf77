#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "protocol/schema.hpp"

namespace weir::protocol {

/// The limits of a number, named as in JSON schema. Each is a number that is printed as it is written here, with a
/// fraction or without; null means no limit.
struct Range {
  nlohmann::json minimum = nullptr;
  nlohmann::json exclusive_minimum = nullptr;
  nlohmann::json maximum = nullptr;
  nlohmann::json exclusive_maximum = nullptr;
  nlohmann::json multiple_of = nullptr;
};

/// The JSON schema of an object without properties.
nlohmann::json empty_schema();

/// The schema of the property of that name, which there must be.
nlohmann::json& declared(nlohmann::json& schema, std::string_view name);

/// `schema` with the description, unless that is empty.
nlohmann::json described(nlohmann::json schema, std::string_view description);

/// The JSON schema of a number.
nlohmann::json number_schema(std::string_view type, const Range& range, std::string_view description);

/// `value` as JSON, without a fraction if it has none and the limits beside which it is printed have none.
nlohmann::json written_like(const Range& range, double value);

/// Names a member of Options: a pointer to a member of type T, or a function from Options& to T&.
template <class Of, class Options, class T>
concept PlaceOf = std::same_as<std::invoke_result_t<const Of&, Options&>, T&>;

/// The parameters of one thing that a job can name, declared once: their JSON schema, their validation, and the members
/// of the plain struct Options that receive the values. The initial values of Options are the defaults. A description
/// may be empty.
///
///     Params<Options>().number("ratio", &Options::ratio, {.exclusive_minimum = 0, .maximum = 1}, "Share kept.");
template <class Options>
class Params {
 public:
  using Values = Options;

  template <PlaceOf<Options, double> Of>
  Params& number(const char* name, Of of, const Range& range, std::string_view description) {
    return add<double>(name, of, number_schema("number", range, description), written_like(range, default_of(of)));
  }
  template <PlaceOf<Options, std::int64_t> Of>
  Params& integer(const char* name, Of of, const Range& range, std::string_view description) {
    return add<std::int64_t>(name, of, number_schema("integer", range, description), default_of(of));
  }
  template <PlaceOf<Options, bool> Of>
  Params& flag(const char* name, Of of, std::string_view description) {
    return add<bool>(name, of, described({{"type", "boolean"}}, description), default_of(of));
  }
  template <PlaceOf<Options, std::string> Of>
  Params& choice(const char* name, Of of, const std::vector<std::string_view>& among, std::string_view description) {
    return add<std::string>(name, of, described({{"type", "string"}, {"enum", among}}, description), default_of(of));
  }
  template <PlaceOf<Options, std::int64_t> Of>
  Params& choice(const char* name, Of of, const std::vector<std::int64_t>& among, std::string_view description) {
    return add<std::int64_t>(name, of, described({{"type", "integer"}, {"enum", among}}, description), default_of(of));
  }
  /// A list of integers, each within `range`, and not more than `items_max` of them.
  template <PlaceOf<Options, std::vector<std::int64_t>> Of>
  Params& integers(const char* name, Of of, const Range& range, std::size_t items_max, std::string_view description) {
    nlohmann::json property = {{"type", "array"}, {"items", number_schema("integer", range, "")}};
    property["maxItems"] = items_max;
    return add<std::vector<std::int64_t>>(name, of, described(std::move(property), description), default_of(of));
  }
  /// Text of 1 to `length_max` characters that must be given.
  template <PlaceOf<Options, std::string> Of>
  Params& required_text(const char* name, Of of, std::size_t length_max, std::string_view description) {
    nlohmann::json property = {{"type", "string"}, {"minLength", 1}, {"maxLength", length_max}};
    schema_["properties"][name] = described(std::move(property), description);
    schema_["required"].push_back(name);
    return read_with(
        [name, of](const nlohmann::json& from, Options& to) { from.at(name).get_to(std::invoke(of, to)); });
  }
  /// A list of at most `count_max` objects, each with these parameters. It is empty unless it is given.
  template <class Item, PlaceOf<Options, std::vector<Item>> Of>
  Params& objects(const char* name, Of of, Params<Item> item, std::size_t count_max, std::string_view description) {
    nlohmann::json property = described({{"type", "array"}, {"maxItems", count_max}}, description);
    property["items"] = item.schema();
    property["default"] = nlohmann::json::array();
    schema_["properties"][name] = std::move(property);
    return read_with([name, of, item = std::move(item)](const nlohmann::json& from, Options& to) {
      for (const auto& one : from.at(name)) {
        Item value;
        item.read(one, value);
        std::invoke(of, to).push_back(std::move(value));
      }
    });
  }
  /// A number that may also be null, which is its default.
  template <PlaceOf<Options, std::optional<double>> Of>
  Params& optional_number(const char* name, Of of, const Range& range, std::string_view description) {
    nlohmann::json property = number_schema("number", range, description);
    property["type"] = nlohmann::json::array({"number", "null"});
    return add<double>(name, of, std::move(property), nullptr);
  }

  /// A list of at most `count_max` numbers, each within the range.
  template <PlaceOf<Options, std::vector<double>> Of>
  Params& numbers(const char* name, Of of, const Range& range, std::size_t count_max, std::string_view description) {
    auto standard = nlohmann::json::array();
    for (const double number : default_of(of)) standard.push_back(written_like(range, number));
    nlohmann::json property = described({{"type", "array"}, {"maxItems", count_max}}, description);
    property["items"] = number_schema("number", range, "");
    return add<std::vector<double>>(name, of, std::move(property), std::move(standard));
  }

  /// States that `name` changes something only where `other` follows `condition`, a JSON schema. Elsewhere it must be
  /// left out, or have its default. Both have been declared, as with the functions below.
  Params& only_where(const char* name, const char* other, nlohmann::json condition) {
    property(other);
    property(name)["onlyWhere"][other] = std::move(condition);
    return *this;
  }
  /// States that the number `name` is not more than the number `other`.
  Params& at_most(const char* name, const char* other) {
    property(other);
    property(name)["atMost"] = other;
    return *this;
  }
  /// States that the product of these numbers, which is so many of `what`, is not more than `maximum`. The last of them
  /// is the one to be made smaller.
  Params& product_at_most(const std::vector<std::string_view>& names, std::int64_t maximum, std::string_view what) {
    for (const auto name : names) property(name);
    schema_["productsAtMost"].push_back({{"of", names}, {"maximum", maximum}, {"what", what}});
    return *this;
  }

  const nlohmann::json& schema() const { return schema_; }

  /// Checks `params` (null means none given) and writes them to `options`, which must hold the defaults. Returns what
  /// is wrong with them, each place relative to the parameters; `options` is then unchanged.
  std::vector<Problem> read(nlohmann::json params, Options& options) const {
    if (params.is_null()) params = nlohmann::json::object();
    auto problems = check_and_complete(schema_, params);
    if (problems.empty()) {
      for (const auto& read_one : readers_) read_one(params, options);
    }
    return problems;
  }

 private:
  template <class Of>
  static auto default_of(Of of) {
    Options defaults;
    return std::invoke(of, defaults);
  }

  /// The schema of a parameter that has been declared.
  nlohmann::json& property(std::string_view name) { return declared(schema_, name); }

  template <class T, class Of>
  Params& add(const char* name, Of of, nlohmann::json property, nlohmann::json standard) {
    property["default"] = std::move(standard);
    schema_["properties"][name] = std::move(property);
    return read_with([name, of](const nlohmann::json& from, Options& to) {
      const nlohmann::json& value = from.at(name);
      if (!value.is_null()) std::invoke(of, to) = value.template get<T>();
    });
  }

  Params& read_with(std::function<void(const nlohmann::json&, Options&)> reader) {
    readers_.push_back(std::move(reader));
    return *this;
  }

  nlohmann::json schema_ = empty_schema();
  std::vector<std::function<void(const nlohmann::json&, Options&)>> readers_;
};

/// The options of what has no parameters.
struct NoOptions {};

/// The parameters that T declares:
///
///     struct Options { ... };
///     static Params<Options> params();
///
/// or none, if it has no params().
template <class T>
auto params_of() {
  if constexpr (requires { T::params(); }) {
    return T::params();
  } else {
    return Params<NoOptions>();
  }
}

}  // namespace weir::protocol
