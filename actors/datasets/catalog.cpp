#include "actors/datasets/catalog.hpp"

#include "actors/datasets/list.hpp"

namespace weir::actors {

const DatasetCatalog& datasets() {
  static const auto catalog = DatasetCatalog({.kind = "dataset"}).add_all(DatasetTypes{});
  return catalog;
}

}  // namespace weir::actors
