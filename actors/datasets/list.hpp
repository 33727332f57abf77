#pragma once

#include "actors/datasets/fashion_mnist.hpp"
#include "actors/datasets/synthetic.hpp"
#include "actors/type_list.hpp"

namespace weir::actors {

/// Every dataset that a job can name. The catalog makes them; the head asks them for their shapes only.
using DatasetTypes = TypeList<FashionMnist, Synthetic>;

}  // namespace weir::actors
