#pragma once

#include <string>

#include "protocol/catalog.hpp"
#include "training/datasets/dataset.hpp"

namespace weir::training {

/// The makers get dataset.path of the job spec, empty if it has none.
using DatasetCatalog = protocol::Catalog<protocol::CatalogEntry<Dataset, const std::string&>>;

/// All datasets.
const DatasetCatalog& datasets();

}  // namespace weir::training
