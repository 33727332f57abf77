#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/bench.hpp"

namespace weir::bench {

struct VarianceOptions {
  Options common;
  std::string model = "resnet20";
  nlohmann::json model_params = nlohmann::json::object();
  std::string dataset = "synthetic";
  nlohmann::json dataset_params = nlohmann::json::object();
  std::string dataset_path;
  std::uint64_t steps = 20;  ///< of training, before the gradient is taken
  std::uint64_t batch_size = 32;
  std::uint64_t repetitions = 10;
};

/// `weir bench variance`: how far what unbiased compressors stand for is from a gradient, and how many bytes that
/// takes. Trains a model for some steps, encodes the gradient of the next one by ATOMO with several budgets, by
/// QSGD and by TernGrad, and by ATOMO with as many bytes as each of those takes. Of each row: the payloads of all
/// tensors, the mean of |decoded - gradient|^2 / |gradient|^2 over the repetitions, |mean of decoded - gradient| /
/// |gradient|, which is about the square root of the former over the repetitions if there is no bias, and the time
/// to encode, beside that of the forward and backward pass. Prints to stdout. Returns an exit code: 0, 1 if the
/// training failed.
int variance(const VarianceOptions& options);

}  // namespace weir::bench
