#pragma once

#include "base/type_list.hpp"
#include "training/datasets/arrays.hpp"
#include "training/datasets/cifar.hpp"
#include "training/datasets/fashion_mnist.hpp"
#include "training/datasets/mnist.hpp"
#include "training/datasets/synthetic.hpp"
#include "training/datasets/synthetic_text.hpp"
#include "training/datasets/text.hpp"

namespace weir::training {

/// Every dataset that a job can name. The catalog makes them; the head only asks for their shapes.
using DatasetTypes =
    TypeList<FashionMnist, Mnist, Cifar10, Cifar100, ArraysDataset, TextDataset, Synthetic, SyntheticText>;

}  // namespace weir::training
