#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "actors/datasets/dataset.hpp"
#include "actors/models/model.hpp"

namespace weir::actors {

/// LeNet in the size that Caffe and the gradient compression papers use: two 5x5 convolutions of 20 and 50 channels,
/// each with 2x2 max pooling and ReLU, a layer of 500 with ReLU, classes. 431,080 parameters on 28 x 28 images with 10
/// classes. (Caffe has no ReLU behind the pooling; without it the usual 0.05 with momentum 0.9 diverges.)
struct LeNet {
  static constexpr std::string_view type_name = "lenet";
  static constexpr std::string_view summary =
      "two convolutions of 20 and 50 channels, layers of 500 and 10; 431,080 parameters";
  static nlohmann::json schema();
  static Result<std::unique_ptr<Model>> make(const nlohmann::json& params, const ExampleShape& shape);
};

}  // namespace weir::actors
