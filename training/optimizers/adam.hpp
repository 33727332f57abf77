#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "training/optimizers/moments.hpp"

namespace weir::training {

/// Adam (Kingma and Ba 2015), like torch::optim::Adam. With the moments m and v of g + weight_decay x, corrected for
/// their beginning at zero:
///
///     x -= rate m / (sqrt(v) + epsilon)
class Adam final : public Optimizer {
 public:
  static constexpr std::string_view type_name = "adam";
  static constexpr std::string_view summary = "steps by running means of gradients and their squares";
  static constexpr bool yields_momentum = false;

  struct Options {
    double lr = 0.001;  ///< for the training, which passes each step its rate
    Moments::Options moments;
  };
  static protocol::Params<Options> params() { return moments_params<Options>(); }
  Adam(const Options& options, const OptimizerSetting& setting) : moments_(options.moments, setting) {}

  void step(std::span<Mean> means, double learning_rate) override;
  std::vector<NamedTensor> save() const override { return moments_.save(); }
  Result<void> restore(std::span<const NamedTensor> state) override { return moments_.restore(type_name, state); }

 private:
  Moments moments_;
};

}  // namespace weir::training
