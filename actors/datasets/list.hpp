#pragma once

#include "actors/datasets/fashion_mnist.hpp"
#include "actors/datasets/synthetic.hpp"
#include "base/type_list.hpp"

namespace weir::actors {

/// Every dataset that a job can name. The catalog makes them; the head only asks for their shapes.
using DatasetTypes = TypeList<FashionMnist, Synthetic>;

}  // namespace weir::actors
