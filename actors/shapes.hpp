#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "actors/datasets/shape.hpp"
#include "protocol/training_shape.hpp"

/// What models and datasets look like, without LibTorch: a library of its own (weir::shapes), which the head links.
namespace weir::actors {

/// The parameter tensors that a model of these parameters has, in its own order. `params` are complete.
/// Fails with: not_found (no such model), invalid_argument (it cannot take such examples).
Result<std::vector<protocol::ParameterShape>> parameter_shapes(std::string_view model, const nlohmann::json& params,
                                                               const ExampleShape& shape);

/// `path` as in the job spec, empty if it has none. Fails with: not_found.
Result<DatasetShape> dataset_shape(std::string_view dataset, const nlohmann::json& params, std::string_view path);

/// A protocol::ShapeOf.
Result<protocol::TrainingShape> training_shape(const protocol::JobSpec& spec);

}  // namespace weir::actors
