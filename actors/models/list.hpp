#pragma once

#include "actors/models/lenet.hpp"
#include "actors/models/mlp.hpp"
#include "actors/models/resnet.hpp"
#include "base/type_list.hpp"

namespace weir::actors {

/// Every model that a job can name. The catalog makes them; the head, which has no LibTorch, asks them only for the
/// shapes of their parameters.
using ModelTypes = TypeList<LeNet, Mlp, ResNet>;

}  // namespace weir::actors
