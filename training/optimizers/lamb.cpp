#include "training/optimizers/lamb.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include <cmath>

#include "base/ensure.hpp"
#include "training/optimizers/norm.hpp"
#include "training/optimizers/slices.hpp"

namespace weir::training {
namespace {

double norm_of(const at::Tensor& tensor) {
  const std::span values(tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel()));
  return std::sqrt(sum_of_squares(values));
}

}  // namespace

Lamb::Lamb(const Options& options, const OptimizerSetting& setting)
    : options_(options), setting_(setting), moments_(options.moments, setting.parameters) {}

void Lamb::step(std::span<Mean> means, double learning_rate) {
  const at::NoGradGuard no_grad;
  ensure(means.size() == setting_.parameters.size(), "one mean per parameter");
  moments_.begin_step();
  for (std::size_t i = 0; i < means.size(); ++i) {
    const at::Tensor parameter = setting_.parameters[i].tensor.view({-1});
    const at::Tensor mean = means[i].tensor.view({-1});
    const bool spared = !setting_.decay_applies(i, options_.no_decay);
    const at::Tensor update = at::empty_like(parameter, at::MemoryFormat::Contiguous);
    for_slices(parameter.numel(), [&](std::int64_t begin, std::int64_t count) {
      const auto [numerator, denominator, divisor] = moments_.add(i, begin, count, mean.narrow(0, begin, count));
      auto part = update.narrow(0, begin, count);
      part.copy_(numerator).div_(denominator).div_(divisor);
      if (!spared) part.add_(parameter.narrow(0, begin, count), options_.weight_decay);
    });
    double ratio = 1;
    if (!spared) {
      const double length = norm_of(parameter);
      const double update_length = norm_of(update);
      if (length > 0 && update_length > 0) ratio = length / update_length;
    }
    for_slices(parameter.numel(), [&](std::int64_t begin, std::int64_t count) {
      parameter.narrow(0, begin, count).add_(update.narrow(0, begin, count), -learning_rate * ratio);
    });
  }
}

}  // namespace weir::training
