#pragma once

#include <string>

#include "actors/datasets/dataset.hpp"
#include "protocol/catalog.hpp"

namespace weir::actors {

/// The makers get dataset.path of the job spec, empty if it has none.
using DatasetCatalog = protocol::Catalog<protocol::CatalogEntry<Dataset, const std::string&>>;

/// All datasets.
const DatasetCatalog& datasets();

}  // namespace weir::actors
