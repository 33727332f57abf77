#include "training/optimizers/adamw.hpp"

#include <ATen/core/grad_mode.h>

#include "base/ensure.hpp"
#include "training/optimizers/slices.hpp"

namespace weir::training {

AdamW::AdamW(const Options& options, const OptimizerSetting& setting)
    : options_(options), setting_(setting), moments_(options.moments, setting.parameters) {}

void AdamW::step(std::span<Mean> means, double learning_rate) {
  const at::NoGradGuard no_grad;
  ensure(means.size() == setting_.parameters.size(), "one mean per parameter");
  moments_.begin_step();
  for (std::size_t i = 0; i < means.size(); ++i) {
    const at::Tensor all = setting_.parameters[i].tensor.view({-1});
    const at::Tensor mean = means[i].tensor.view({-1});
    const bool decays = options_.weight_decay != 0 && setting_.decay_applies(i, options_.no_decay);
    for_slices(all.numel(), [&](std::int64_t begin, std::int64_t count) {
      auto parameter = all.narrow(0, begin, count);
      if (decays) parameter.mul_(1 - learning_rate * options_.weight_decay);
      const auto [numerator, denominator, divisor] = moments_.add(i, begin, count, mean.narrow(0, begin, count));
      parameter.addcdiv_(numerator, denominator, -learning_rate / divisor);
    });
  }
}

}  // namespace weir::training
