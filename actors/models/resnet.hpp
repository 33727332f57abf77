#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "actors/datasets/dataset.hpp"
#include "actors/models/model.hpp"

namespace weir::actors {

/// The residual network for small images of He et al., "Deep Residual Learning for Image Recognition" (CVPR 2016),
/// section 4.2: a 3x3 convolution, three stages of n blocks of two 3x3 convolutions each, the second and the third
/// stage at half the extents and twice the channels of the one before, global average pooling, classes: 6 n + 2 layers.
/// Shortcuts have no parameters (option A of the paper): where the extents change they take every other pixel, and the
/// new channels are zero. Batch normalisation follows every convolution, which has no bias. At depth 20 and width 16,
/// 269,722 parameters on images of three channels with 10 classes.
///
/// Convolutions are drawn as in He et al., ICCV 2015 (normal, variance 2 over the inputs of one output). The running
/// statistics of the batch normalisation are buffers: each rank has its own, of the batches it saw; evaluation takes
/// those of rank 0.
struct ResNet {
  static constexpr std::string_view type_name = "resnet20";
  static constexpr std::string_view summary =
      "residual network for small images, three stages with batch normalisation; 269,434 parameters on 28 x 28 x 1";
  static nlohmann::json schema();
  static Result<std::unique_ptr<Model>> make(const nlohmann::json& params, const ExampleShape& shape);
};

}  // namespace weir::actors
