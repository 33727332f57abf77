#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ensure.hpp"
#include "base/result.hpp"
#include "base/type_list.hpp"
#include "protocol/params.hpp"

namespace weir::protocol {

/// The error "there is no KIND 'NAME'", with the nearest known name or all of them.
Error no_such_name(std::string_view kind, std::string_view name, const std::vector<std::string>& known);

/// The error for parameters with these problems: "KIND NAME: /params/...", with the first of them.
Error bad_params(std::string_view kind, std::string_view name, const std::vector<Problem>& problems);

/// What a catalog calls its entries, and how it words its errors.
struct CatalogWords {
  std::string_view kind;  ///< "model", "dataset", ...
  Error (*unknown)(std::string_view kind, std::string_view name, const std::vector<std::string>& known) = no_such_name;
  Error (*refused)(std::string_view kind, std::string_view name, const std::vector<Problem>& problems) = bad_params;
};

/// The options of T (params_of) that `given` states. Fails with: invalid_argument.
template <class T>
auto read_options(const nlohmann::json& given, const CatalogWords& words)
    -> Result<typename decltype(params_of<T>())::Values> {
  typename decltype(params_of<T>())::Values options;
  if (const auto problems = params_of<T>().read(given, options); !problems.empty()) {
    return words.refused(words.kind, T::type_name, problems);
  }
  return options;
}

/// Calls T::make(options, args...) or, if there is none, T's constructor with both, with the options, or with nothing.
template <class T, class Product, class Options, class... Args>
Result<std::unique_ptr<Product>> make_from(Options options, Args&&... args) {
  if constexpr (requires { T::make(std::move(options), std::forward<Args>(args)...); }) {
    return T::make(std::move(options), std::forward<Args>(args)...);
  } else if constexpr (std::constructible_from<T, Options, Args...>) {
    return std::make_unique<T>(std::move(options), std::forward<Args>(args)...);
  } else if constexpr (!std::same_as<Options, NoOptions>) {
    return std::make_unique<T>(std::move(options));
  } else {
    return std::make_unique<T>();
  }
}

/// Something that a job can name: a Product, made from parameters and what else it depends on. It is a class with
///
///     static constexpr std::string_view type_name, summary;
///
/// params() if it has parameters (params_of), and a make() or a constructor for make_from(). An entry with further
/// members derives from this one and has its own of() and describe().
template <class P, class... Args>
struct CatalogEntry {
  using Product = P;

  std::string name;
  std::string summary;
  std::function<nlohmann::json()> schema;  ///< of the parameters
  /// Fails with: invalid_argument (parameters), and with what T::make() fails with.
  std::function<Result<std::unique_ptr<Product>>(const nlohmann::json& params, Args... args)> make;

  template <class T>
  static CatalogEntry of(const CatalogWords& words) {
    return {std::string(T::type_name), std::string(T::summary), [] { return params_of<T>().schema(); },
            [words](const nlohmann::json& params, Args... args) -> Result<std::unique_ptr<Product>> {
              auto options = read_options<T>(params, words);
              if (!options) return options.error();
              return make_from<T, Product>(std::move(*options), std::forward<Args>(args)...);
            }};
  }

  /// {"name", "summary", "params": JSON schema}
  nlohmann::json describe() const { return {{"name", name}, {"summary", summary}, {"params", schema()}}; }
};

/// The choices of one kind that a job has: each kind has one list, in its catalog.cpp. A value; read-only once built.
template <class Entry>
class Catalog {
 public:
  explicit Catalog(const CatalogWords& words) : words_(words) {}

  template <class T>
  Catalog& add() {
    return add(Entry::template of<T>(words_));
  }
  template <class... T>
  Catalog& add_all(TypeList<T...>) {
    (add<T>(), ...);
    return *this;
  }
  /// Adding a name twice is a programming error.
  Catalog& add(Entry entry) {
    ensure(find(entry.name) == nullptr, "a catalog has a name twice");
    entries_.push_back(std::move(entry));
    return *this;
  }

  const std::vector<Entry>& entries() const { return entries_; }

  /// Null if there is none of that name.
  const Entry* find(std::string_view name) const {
    for (const Entry& entry : entries_) {
      if (entry.name == name) return &entry;
    }
    return nullptr;
  }

  /// The error for a name that is not in the catalog.
  Error unknown(std::string_view name) const {
    std::vector<std::string> known;
    for (const Entry& entry : entries_) known.push_back(entry.name);
    return words_.unknown(words_.kind, name, known);
  }

  /// Makes the product with that name. Fails with: not_found (no such name), invalid_argument (parameters), and with
  /// what its make() fails with.
  template <class... Args>
  Result<std::unique_ptr<typename Entry::Product>> make(std::string_view name, const nlohmann::json& params,
                                                        Args&&... args) const {
    const Entry* entry = find(name);
    if (entry == nullptr) return unknown(name);
    return entry->make(params, std::forward<Args>(args)...);
  }

  /// The list for clients: what each entry's describe() returns.
  nlohmann::json describe() const {
    auto list = nlohmann::json::array();
    for (const Entry& entry : entries_) list.push_back(entry.describe());
    return list;
  }

 private:
  CatalogWords words_;
  std::vector<Entry> entries_;
};

}  // namespace weir::protocol
