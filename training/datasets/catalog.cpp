#include "training/datasets/catalog.hpp"

#include "training/datasets/list.hpp"

namespace weir::training {

const DatasetCatalog& datasets() {
  static const auto catalog = DatasetCatalog({.kind = "dataset"}).add_all(DatasetTypes{});
  return catalog;
}

}  // namespace weir::training
