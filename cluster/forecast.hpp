#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "cluster/head.hpp"
#include "protocol/job_spec.hpp"
#include "protocol/training_shape.hpp"

/// What can be said of a job before it runs. Pure functions.
namespace weir::cluster {

/// What one exchange costs a worker, in bytes, beside the dense ring's 2 (P-1)/P of the gradient: {"parameters",
/// "bytes_dense", "bytes_sent"}, null where it is not known. Tensors that the compressor leaves out go through a dense
/// ring; the others take the bits an entry that the catalog states for the compressor with its default parameters.
nlohmann::json round_cost(const protocol::JobSpec& spec, const protocol::TrainingShape* shape,
                          const nlohmann::json& catalog);

/// Steps of the training and of the part of it in which the compressor warms up.
struct StepCount {
  std::uint64_t total = 0;
  std::uint64_t warmup = 0;
};

/// Nothing if the number of examples is not known. 0 steps: a worker's share of the examples is smaller than a batch.
std::optional<StepCount> count_steps(const protocol::JobSpec& spec, const protocol::TrainingShape& shape,
                                     const nlohmann::json& catalog);

/// Where a valid spec asks for something that will hardly do what its author wants.
std::vector<Warning> warnings_of(const protocol::JobSpec& spec, const protocol::TrainingShape& shape,
                                 const nlohmann::json& catalog);

/// What no worker could begin with: a shard without a whole batch.
std::vector<protocol::Problem> problems_of(const protocol::JobSpec& spec, const protocol::TrainingShape& shape,
                                           const nlohmann::json& catalog);

}  // namespace weir::cluster
