#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/training_shape.hpp"

namespace weir::bench {

/// A network whose gradients are exchanged, known by the shapes of its parameters alone.
struct LayerList {
  std::string name;   ///< as in rows
  std::string title;  ///< for people
  std::vector<protocol::ParameterShape> parameters;
  double compute_seconds = 0;  ///< of a step without the exchange, unless somebody says something else
};

/// `mlp` with 13,424 hidden units on images of 28 x 28 (10.7 M parameters), ResNet-50 (He et al. 2016; 25.6 M) and
/// VGG-16 (Simonyan and Zisserman 2015; 138 M), the latter two for images of 224 x 224 in 1,000 classes. The times of
/// their steps are round numbers of the order that one accelerator takes for a batch.
std::span<const LayerList> layer_lists();

}  // namespace weir::bench
