#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/bench.hpp"
#include "bench/place.hpp"

namespace weir::bench {

struct TrainOptions {
  Options common;
  PlaceOptions place;  ///< without one, four ranks run as threads of this process, over loopback
  std::string model = "lenet";
  nlohmann::json model_params = nlohmann::json::object();
  std::string topology = "ring";
  std::uint64_t steps = 60;
  std::uint64_t warmup = 5;  ///< steps before, not counted: caches, allocators and sockets warm up
  std::uint64_t batch_size = 32;
};

/// `weir bench train`: the training step of a model, LeNet if no other is named, on generated images, with one
/// computing thread per rank. In the same run it measures its own limit, the step of the same ranks side by side
/// without an exchange, and then the step with each compression. Prints to stdout. Returns an exit code: 0, 1 if a rank
/// failed, 2 for invalid options.
int train(const TrainOptions& options);

}  // namespace weir::bench
