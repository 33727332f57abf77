#pragma once

#include <string>
#include <utility>

#include "base/errc.hpp"
#include "protocol/catalog.hpp"
#include "training/datasets/dataset.hpp"

namespace weir::training {

/// A dataset in the catalog. Beside what protocol::CatalogEntry asks for, its class has
///
///     static constexpr bool needs_path;  // whether its files have no usual place
///     static constexpr bool has_files;   // false; only if there are none
///
/// One that needs a path is refused, with invalid_argument, if the job has none.
struct DatasetEntry : protocol::CatalogEntry<Dataset, const std::string&> {
  bool needs_path = false;
  bool has_files = true;

  template <class T>
  static DatasetEntry of(const protocol::CatalogWords& words) {
    DatasetEntry entry{CatalogEntry::of<T>(words), T::needs_path};
    if constexpr (requires { T::has_files; }) entry.has_files = T::has_files;
    if constexpr (T::needs_path) {
      entry.make = [make = std::move(entry.make)](const nlohmann::json& params,
                                                  const std::string& path) -> Result<std::unique_ptr<Dataset>> {
        if (path.empty()) {
          return Error{Errc::invalid_argument,
                       "dataset " + std::string(T::type_name) + " has no usual place: say as dataset.path where it is"};
        }
        return make(params, path);
      };
    }
    return entry;
  }

  /// {"name", "summary", "params", "needs_path", "has_files"}
  nlohmann::json describe() const {
    nlohmann::json it = CatalogEntry::describe();
    it["needs_path"] = needs_path;
    it["has_files"] = has_files;
    return it;
  }
};

/// The makers get dataset.path of the job spec, empty if it has none.
using DatasetCatalog = protocol::Catalog<DatasetEntry>;

/// All datasets.
const DatasetCatalog& datasets();

}  // namespace weir::training
