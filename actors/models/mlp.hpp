#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "actors/datasets/dataset.hpp"
#include "actors/models/model.hpp"

namespace weir::actors {

/// One hidden layer with ReLU between flattened images and classes: the smallest network that learns
/// something.
struct Mlp {
  static constexpr std::string_view type_name = "mlp";
  static constexpr std::string_view summary = "one hidden layer; small, for trying things";
  static nlohmann::json schema();
  static Result<std::unique_ptr<Model>> make(const nlohmann::json& params, const ExampleShape& shape);
};

}  // namespace weir::actors
