#include "bench/variance.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <regex>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "compressors/catalog.hpp"
#include "training/modes/mode.hpp"
#include "training/modes/own_step.hpp"
#include "training/modes/passes.hpp"
#include "training/replica.hpp"

namespace weir::bench {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Gradient {
  std::vector<at::Tensor> tensors;
  double squares = 0;  ///< |gradient|^2
  double seconds = 0;  ///< of the forward and backward pass
};

/// Of one worker's batch, after some steps of training.
Result<Gradient> gradient_of(const VarianceOptions& options) {
  protocol::JobSpec spec;
  spec.model = {options.model, options.model_params};
  spec.dataset.choice = {options.dataset, options.dataset_params};
  if (!options.dataset_path.empty()) spec.dataset.path = options.dataset_path;
  spec.dataset.partition = "iid";
  spec.training.mode = {"local", json::object()};
  spec.training.epochs = 1e6;
  spec.training.max_steps = options.steps + 1;
  spec.training.batch_size = options.batch_size;
  spec.training.seed = 1;
  spec.training.optimizer = {"sgd", {{"lr", 0.05}, {"momentum", 0.9}}};
  spec.training.lr_schedule = {"constant", json::object()};
  spec.compression.compressor = {"none", json::object()};
  auto replica = training::Replica::make(spec, 0, 1);
  if (!replica) return replica.error();
  (*replica)->model->set_training(true);
  training::Passes passes(**replica, training::Passes::all_steps(**replica));
  while ((*replica)->step < options.steps) {
    if (auto loss = training::own_step(**replica, passes); !loss) return loss.error();
  }
  Gradient gradient;
  const auto start = Clock::now();
  if (auto loss = passes.run((*replica)->learning_rate); !loss) return loss.error();
  gradient.seconds = seconds_since(start);
  for (const auto& tensor : training::gradients_of(*(*replica)->model)) {
    gradient.tensors.push_back(tensor.detach().clone());
    gradient.squares += tensor.square().sum(at::kDouble).item<double>();
  }
  return gradient;
}

struct Measured {
  double bytes = 0;
  double variance = 0;
  double bias = 0;
  double encode_seconds = 0;
};

/// Encodes and decodes the gradient so many times, each with other random numbers. Tensors that the compressor does not
/// take travel as they are.
Measured measure(const Gradient& gradient, const std::string& compressor, const json& params,
                 std::uint64_t repetitions) {
  const at::NoGradGuard no_grad;
  const json none = json::object();
  const auto compression =
      compressors::builtin()
          .make({.compressor = compressor, .params = params, .memory = "none", .memory_params = none, .setting = {}})
          .value();
  compressors::Compressor& codec = *compression.compressor;
  Measured measured;
  const auto times = static_cast<double>(repetitions);
  double off_mean = 0;
  for (std::size_t t = 0; t < gradient.tensors.size(); ++t) {
    const at::Tensor& tensor = gradient.tensors[t];
    if (!codec.takes(tensor.sizes())) {
      measured.bytes += static_cast<double>(tensor.nbytes());
      continue;
    }
    at::Tensor mean = at::zeros_like(tensor);
    for (std::uint64_t r = 0; r < repetitions; ++r) {
      const compressors::Round round{
          .seed = 1, .step = r, .epoch = 1e6, .tensor = static_cast<std::uint32_t>(t), .world = 1};
      Bytes payload;
      const auto start = Clock::now();
      codec.encode(tensor, round, payload, nullptr).value();
      measured.encode_seconds += seconds_since(start) / times;
      measured.bytes += static_cast<double>(payload.size()) / times;
      at::Tensor decoded = at::zeros_like(tensor);
      codec.decode_add(payload, round, 1, decoded).value();
      measured.variance += decoded.sub(tensor).square().sum(at::kDouble).item<double>() / times;
      mean.add_(decoded, 1 / times);
    }
    off_mean += mean.sub(tensor).square().sum(at::kDouble).item<double>();
  }
  measured.variance /= gradient.squares;
  measured.bias = std::sqrt(off_mean / gradient.squares);
  return measured;
}

struct Row {
  std::string name;
  std::string compressor;
  json params;
};

json with(json params, const char* name, double value) {
  params[name] = value;
  return params;
}

/// ATOMO with the budget at which it takes about as many bytes as that, in the same repetitions.
Row atomo_of_bytes(const Gradient& gradient, double bytes, const std::string& like, const json& atoms,
                   const char* parameter, double most, std::uint64_t repetitions) {
  double low = 1e-4;
  double high = most;
  for (int i = 0; i < 20; ++i) {
    const double middle = std::sqrt(low * high);
    (measure(gradient, "atomo", with(atoms, parameter, middle), repetitions).bytes < bytes ? low : high) = middle;
  }
  return {"atomo " + atoms.at("atoms").get<std::string>() + ", bytes of " + like, "atomo", with(atoms, parameter, low)};
}

void print(const Row& row, const Measured& measured, const Gradient& gradient, const VarianceOptions& options) {
  double dense = 0;
  for (const auto& tensor : gradient.tensors) dense += static_cast<double>(tensor.nbytes());
  if (!options.common.json) {
    std::printf("%-34s %12.0f bytes (%6.1f x fewer)  variance %9.4f  off the mean %7.4f  encode %.4f s (a pass %.4f)\n",
                row.name.c_str(), measured.bytes, dense / measured.bytes, measured.variance, measured.bias,
                measured.encode_seconds, gradient.seconds);
    std::fflush(stdout);
    return;
  }
  const json line{{"bench", "variance"},
                  {"name", row.name},
                  {"case",
                   {{"model", options.model},
                    {"model_params", options.model_params},
                    {"dataset", options.dataset},
                    {"steps", options.steps},
                    {"batch_size", options.batch_size},
                    {"repetitions", options.repetitions},
                    {"compressor", row.compressor},
                    {"params", row.params}}},
                  {"metrics",
                   {{"bytes", measured.bytes},
                    {"dense_bytes", dense},
                    {"relative_variance", measured.variance},
                    {"relative_distance_of_mean", measured.bias},
                    {"encode_seconds", measured.encode_seconds},
                    {"pass_seconds", gradient.seconds}}}};
  std::cout << line.dump() << std::endl;
}

}  // namespace

int variance(const VarianceOptions& options) {
  const auto gradient = gradient_of(options);
  if (!gradient) {
    std::cerr << "weir bench: " << gradient.error().message() << '\n';
    return 1;
  }
  const std::regex wanted(options.common.filter);
  const auto run = [&](const Row& row) {
    const auto measured = measure(*gradient, row.compressor, row.params, options.repetitions);
    print(row, measured, *gradient, options);
    return measured.bytes;
  };
  for (const int budget : {1, 2, 3, 4, 6, 8}) {
    const Row row{"atomo svd, budget " + std::to_string(budget), "atomo", {{"atoms", "svd"}, {"budget", budget}}};
    if (std::regex_search(row.name, wanted)) run(row);
  }
  std::vector<Row> others;
  for (const int bits : {1, 2, 4, 8})
    others.push_back({"qsgd, bits " + std::to_string(bits), "qsgd", {{"bits", bits}}});
  others.push_back({"terngrad", "terngrad", {{"scale", "local"}}});
  others.push_back({"terngrad, not clipped", "terngrad", {{"scale", "local"}, {"clip", 0}}});
  for (const Row& row : others) {
    if (!std::regex_search(row.name, wanted)) continue;
    const double bytes = run(row);
    run(atomo_of_bytes(*gradient, bytes, row.name, {{"atoms", "svd"}}, "budget", 1e4, options.repetitions));
    run(atomo_of_bytes(*gradient, bytes, row.name, {{"atoms", "entrywise"}}, "ratio", 1, options.repetitions));
  }
  return 0;
}

}  // namespace weir::bench
