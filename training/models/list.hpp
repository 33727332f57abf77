#pragma once

#include "base/type_list.hpp"
#include "training/models/alexnet.hpp"
#include "training/models/char_lstm.hpp"
#include "training/models/cifar_resnet.hpp"
#include "training/models/gpt.hpp"
#include "training/models/inception_v3.hpp"
#include "training/models/lenet.hpp"
#include "training/models/mlp.hpp"
#include "training/models/mobilenet.hpp"
#include "training/models/resnet.hpp"
#include "training/models/torch_script.hpp"
#include "training/models/vgg.hpp"

namespace weir::training {

/// Every model that a job can name and that is described as a Network. The catalog makes them; the head, which has no
/// LibTorch, asks them only for the shapes of their parameters.
using NetworkTypes = TypeList<LeNet, Mlp, CifarResNet, ResNet, Vgg, AlexNet, MobileNet, InceptionV3, CharLstm, Gpt>;

/// The models that only a file on a worker's host describes: the head can check their options alone.
using StoredModelTypes = TypeList<TorchScript>;

}  // namespace weir::training
