#pragma once

#include "base/type_list.hpp"
#include "training/datasets/fashion_mnist.hpp"
#include "training/datasets/synthetic.hpp"

namespace weir::training {

/// Every dataset that a job can name. The catalog makes them; the head only asks for their shapes.
using DatasetTypes = TypeList<FashionMnist, Synthetic>;

}  // namespace weir::training
