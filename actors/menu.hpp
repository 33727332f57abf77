#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "actors/type_list.hpp"
#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "base/result.hpp"

namespace weir::actors {

/// Completes the parameters that a job gives with the defaults of their schema. Null counts as none given. Fails with:
/// invalid_argument (the first problem, with its place).
Result<nlohmann::json> complete_params(const nlohmann::json& schema, const nlohmann::json& params);

/// The error "there is no KIND 'NAME'", with the nearest known name or all of them.
Error unknown_name(std::string_view kind, std::string_view name, const std::vector<std::string>& known);

/// The choices of one kind that a job can name: each kind has one list, in its catalog.cpp. A listed class has
///
///     static constexpr std::string_view type_name, summary;
///     static nlohmann::json schema();  // of its parameters
///     static Result<std::unique_ptr<Product>> make(const nlohmann::json& params, Args...);
///
/// where make() gets parameters that follow the schema.
template <class Product, class... Args>
class Menu {
 public:
  struct Entry {
    std::string_view name;
    std::string_view summary;
    std::function<nlohmann::json()> schema;
    std::function<Result<std::unique_ptr<Product>>(const nlohmann::json&, Args...)> make;
  };

  /// `kind`: its name in the job spec: "model", "dataset", ...
  explicit Menu(std::string_view kind) : kind_(kind) {}

  template <class T>
  Menu& add() {
    for (const auto& entry : entries_) ensure(entry.name != T::type_name, "a catalog has a name twice");
    entries_.push_back({T::type_name, T::summary, &T::schema, &T::make});
    return *this;
  }

  template <class... T>
  Menu& add_all(TypeList<T...>) {
    (add<T>(), ...);
    return *this;
  }

  const std::vector<Entry>& entries() const { return entries_; }

  /// Makes the product with that name. Fails with: not_found (no such name), invalid_argument (parameters), and with
  /// what its make() fails with.
  Result<std::unique_ptr<Product>> make(std::string_view name, const nlohmann::json& params, Args... args) const {
    std::vector<std::string> known;
    for (const auto& entry : entries_) {
      if (entry.name != name) {
        known.emplace_back(entry.name);
        continue;
      }
      auto complete = complete_params(entry.schema(), params);
      if (!complete) return complete.error().within(std::string(kind_) + " " + std::string(name));
      return entry.make(*complete, std::forward<Args>(args)...);
    }
    return unknown_name(kind_, name, known);
  }

  /// The list for clients: [{"name", "summary", "params": JSON schema}].
  nlohmann::json describe() const {
    auto list = nlohmann::json::array();
    for (const auto& entry : entries_) {
      list.push_back({{"name", entry.name}, {"summary", entry.summary}, {"params", entry.schema()}});
    }
    return list;
  }

 private:
  std::string_view kind_;
  std::vector<Entry> entries_;
};

/// The schema of a class without parameters.
nlohmann::json no_params();

}  // namespace weir::actors
