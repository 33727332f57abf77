#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "protocol/training_shape.hpp"
#include "training/datasets/shape.hpp"

/// The shapes of models and datasets, without LibTorch: a library of its own (weir::training_shapes), which the head
/// links.
namespace weir::training {

/// The shapes of a model's parameter tensors, in the model's order; empty if only a file of the workers would tell.
/// Fails with: not_found (no such model),
/// invalid_argument (parameters, or the model does not accept examples of this shape).
Result<std::vector<protocol::ParameterShape>> parameter_shapes(std::string_view model, const nlohmann::json& params,
                                                               const ExampleShape& shape);

/// The shape of a dataset. `path` is dataset.path of the job spec, empty if it has none. Fails with: not_found,
/// invalid_argument (parameters).
Result<DatasetShape> dataset_shape(std::string_view dataset, const nlohmann::json& params, std::string_view path);

/// The protocol::ShapeOf for this build's models and datasets.
Result<protocol::TrainingShape> training_shape(const protocol::JobSpec& spec);

}  // namespace weir::training
