#pragma once

#include "actors/datasets/dataset.hpp"
#include "actors/menu.hpp"

namespace weir::actors {

/// Every dataset; the maker takes dataset.path of the job spec, empty if it has none.
const Menu<Dataset, const std::string&>& datasets();

}  // namespace weir::actors
