#pragma once

#include "base/type_list.hpp"
#include "training/models/lenet.hpp"
#include "training/models/mlp.hpp"
#include "training/models/resnet.hpp"

namespace weir::training {

/// Every model that a job can name. The catalog makes them; the head, which has no LibTorch, asks them only for the
/// shapes of their parameters.
using ModelTypes = TypeList<LeNet, Mlp, ResNet>;

}  // namespace weir::training
