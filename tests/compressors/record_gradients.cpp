// Writes tests/compressors/data/*.safetensors, the gradients that support.hpp's recorded_gradients() gives to tests:
// whole tensors from an early and a later step of real trainings on Fashion-MNIST. Not built by default:
//
//     cmake --build build/release --target record_gradients && build/release/tests/record_gradients
//
// The files are kept in the tree because other versions of LibTorch give other bits.
#include <ATen/ATen.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/errc.hpp"
#include "training/datasets/catalog.hpp"
#include "training/datasets/sampler.hpp"
#include "training/models/catalog.hpp"
#include "training/optimizers/optimizer.hpp"
#include "training/tensor_file.hpp"

namespace weir::training {
namespace {

constexpr std::uint64_t seed = 1;
constexpr double learning_rate = 0.05;

struct Recording {
  std::string file;
  std::string model;
  nlohmann::json params;
  std::vector<std::string> tensors;
  std::vector<std::uint64_t> steps;
};

const std::vector<Recording>& recordings() {
  static const std::vector<Recording> all{
      {"lenet.safetensors",
       "lenet",
       nullptr,
       {"conv1.weight", "conv1.bias", "conv2.weight", "fc1.bias", "fc2.weight", "fc2.bias"},
       {5, 300}},
      {"resnet.safetensors",
       "resnet20",
       nullptr,
       {"conv.weight", "norm.weight", "blocks.0.conv1.weight", "blocks.3.conv2.weight", "blocks.6.conv1.weight",
        "blocks.8.norm2.bias", "fc.weight"},
       {5, 150}}};
  return all;
}

Result<void> record(const Recording& wanted, const std::filesystem::path& folder) {
  auto dataset = datasets().make("fashion-mnist", nullptr, "");
  if (!dataset) return dataset.error();
  auto examples = (*dataset)->train();
  if (!examples) return examples.error();
  auto sampler = Sampler::make({.samples_per_step = 64, .seed = seed}, (*examples)->classes());
  if (!sampler) return sampler.error();
  auto model = make_model(wanted.model, wanted.params, (*dataset)->shape(), seed);
  if (!model) return model.error();
  const auto parameters = (*model)->parameters();
  auto optimizer = optimizers().make("sgd", {{"momentum", 0.9}}, OptimizerSetting{parameters});
  if (!optimizer) return optimizer.error();

  std::vector<NamedTensor> recorded;
  const auto last = std::ranges::max(wanted.steps);
  for (std::uint64_t step = 1; step <= last; ++step) {
    const auto batch = (*examples)->batch(sampler->examples(step - 1));
    const auto loss = at::cross_entropy_loss((*model)->forward(batch.input), batch.target);
    for (const auto& parameter : parameters) parameter.tensor.mutable_grad() = at::Tensor();
    loss.backward();
    std::vector<Mean> means;
    const bool kept = std::ranges::count(wanted.steps, step) != 0;
    for (const auto& [name, tensor] : parameters) {
      means.push_back({.tensor = tensor.grad(), .sparse = false, .positions = {}});
      const bool chosen = std::ranges::count(wanted.tensors, name) != 0;
      if (kept && chosen) recorded.push_back({"step" + std::to_string(step) + "." + name, tensor.grad().clone()});
    }
    if (kept) std::printf("%s, step %d: loss %.3f\n", wanted.model.c_str(), int(step), loss.item<double>());
    (*optimizer)->step(means, learning_rate);
  }

  TensorFile file;
  file.add("", recorded);
  const auto bytes = file.write({{"model", wanted.model}, {"dataset", "fashion-mnist"}, {"batch_size", "64"}});
  if (!bytes) return bytes.error();
  std::ofstream out(folder / wanted.file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes->data()), static_cast<std::streamsize>(bytes->size()));
  if (!out.flush()) return Error{Errc::io, "cannot write " + (folder / wanted.file).string()};
  std::printf("%s: %zu tensors, %zu bytes\n", wanted.file.c_str(), recorded.size(), bytes->size());
  return {};
}

}  // namespace
}  // namespace weir::training

int main() {
  for (const auto& recording : weir::training::recordings()) {
    if (auto done = weir::training::record(recording, WEIR_RECORDED_GRADIENTS); !done) {
      std::fprintf(stderr, "record_gradients: %s\n", done.error().message().c_str());
      return 1;
    }
  }
  return 0;
}
