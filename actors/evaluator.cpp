#include "actors/evaluator.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "training/datasets/catalog.hpp"
#include "training/device.hpp"
#include "training/models/catalog.hpp"
#include "training/precision.hpp"
#include "training/tensor_file.hpp"

namespace weir::actors {

namespace {

/// How many examples go through the model at once. Small images are the faster for being many. What larger ones and
/// texts take, whose attention grows with the square of their length, is only known to fit for a batch of the training.
std::size_t batch_size_for(const training::ExampleShape& shape, std::size_t of_training) {
  constexpr std::size_t most = 250;
  constexpr std::int64_t small_image = 3 * 32 * 32;
  const bool small = shape.tokens == 0 && shape.channels * shape.height * shape.width <= small_image;
  return small ? most : std::min(most, of_training);
}

}  // namespace

struct Evaluator::Bench {
  at::Device device;
  protocol::Precision precision;
  std::size_t batch_size;
  std::unique_ptr<training::Model> model;
  std::unique_ptr<training::Examples> examples;

  Result<Measured> measure(const Segment& tensors) const;
};

Result<Measured> Evaluator::Bench::measure(const Segment& tensors) const {
  const auto file = protocol::read_safetensors(tensors);
  if (!file) return file.error();
  if (auto loaded = training::load_into(*file, "model.", state_of(*model)); !loaded) return loaded.error();
  const at::NoGradGuard no_grad;
  std::vector<std::uint32_t> positions(examples->classes().size());
  std::iota(positions.begin(), positions.end(), 0u);
  std::int64_t right = 0;
  std::int64_t total = 0;  // an image is predicted once, a text once for each token
  double loss = 0;
  for (std::size_t start = 0; start < positions.size(); start += batch_size) {
    const auto count = std::min(batch_size, positions.size() - start);
    const auto batch = examples->batch(std::span(positions).subspan(start, count));
    const at::Tensor target = batch.target.to(device);
    const auto logits = training::logits_of(*model, batch.input.to(device), precision);
    right += logits.argmax(1).eq(target).sum().item<std::int64_t>();
    loss += at::cross_entropy_loss(logits, target).item<double>() * static_cast<double>(batch.target.numel());
    total += batch.target.numel();
  }
  const auto predicted = static_cast<double>(std::max<std::int64_t>(1, total));
  return Measured{static_cast<double>(right) / predicted, loss / predicted};
}

Result<std::shared_ptr<const Evaluator::Bench>> Evaluator::prepare(const protocol::JobSpec& spec) {
  auto dataset =
      training::datasets().make(spec.dataset.choice.name, spec.dataset.choice.params, spec.dataset.path.value_or(""));
  if (!dataset) return dataset.error();
  auto examples = (*dataset)->test();
  if (!examples) return examples.error();
  const auto device = training::device_for(spec.resources.per_worker);
  if (!device) return device.error();
  auto model =
      training::make_model(spec.model.name, spec.model.params, (*dataset)->shape(), spec.training.seed, *device);
  if (!model) return model.error();
  (*model)->set_training(false);
  const auto at_once = batch_size_for((*dataset)->shape(), spec.training.batch_size);
  return std::make_shared<const Bench>(
      Bench{*device, spec.training.precision, at_once, std::move(*model), std::move(*examples)});
}

Evaluator::Evaluator(std::shared_ptr<const Bench> bench) : bench_(std::move(bench)) {}
Evaluator::~Evaluator() = default;

net::awaitable<Result<Measured>> Evaluator::evaluate(Segment model) {
  auto work = [bench = bench_, model = std::move(model)] { return bench->measure(model); };
  co_return co_await compute_.run(std::move(work));
}

}  // namespace weir::actors
