#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "training/optimizers/moments.hpp"

namespace weir::training {

/// Adam with decoupled weight decay (Loshchilov and Hutter 2019), like torch::optim::AdamW. With the moments m and v of
/// g, corrected for their beginning at zero:
///
///     x = (1 - rate weight_decay) x - rate m / (sqrt(v) + epsilon)
class AdamW final : public Optimizer {
 public:
  static constexpr std::string_view type_name = "adamw";
  static constexpr std::string_view summary = "Adam whose weight decay is apart from the gradients";
  static constexpr bool yields_momentum = false;

  struct Options {
    double lr = 0.001;  ///< for the training, which passes each step its rate
    Moments::Options moments = {.weight_decay = 0.01};
  };
  static protocol::Params<Options> params() { return moments_params<Options>(); }
  AdamW(const Options& options, const OptimizerSetting& setting) : moments_(options.moments, setting) {}

  void step(std::span<Mean> means, double learning_rate) override;
  std::vector<NamedTensor> save() const override { return moments_.save(); }
  Result<void> restore(std::span<const NamedTensor> state) override { return moments_.restore(type_name, state); }

 private:
  Moments moments_;
};

}  // namespace weir::training
