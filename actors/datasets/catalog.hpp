#pragma once

#include "actors/datasets/dataset.hpp"
#include "actors/menu.hpp"

namespace weir::actors {

/// All datasets. The makers get dataset.path of the job spec, empty if it has none.
const Menu<Dataset, const std::string&>& datasets();

}  // namespace weir::actors
