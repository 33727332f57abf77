#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "actors/datasets/dataset.hpp"
#include "actors/models/model.hpp"

namespace weir::actors {

/// LeNet as Caffe and the gradient compression papers use it: two 5x5 convolutions of 20 and 50 channels,
/// each with 2x2 max pooling, a layer of 500, ReLU, classes. 431,080 parameters on 28 x 28 images with 10
/// classes.
struct LeNet {
  static constexpr std::string_view type_name = "lenet";
  static constexpr std::string_view summary =
      "two convolutions of 20 and 50 channels, layers of 500 and 10; 431,080 parameters";
  static nlohmann::json schema();
  static Result<std::unique_ptr<Model>> make(const nlohmann::json& params, const ExampleShape& shape);
};

}  // namespace weir::actors
