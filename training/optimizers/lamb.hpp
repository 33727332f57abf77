#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "training/optimizers/moments.hpp"

namespace weir::training {

/// LAMB (You et al. 2020), for large batches: the direction of Adam with decoupled weight decay, whose length is made
/// that of the parameter, tensor by tensor. With the moments m and v of g, corrected for their beginning at zero:
///
///     u = m / (sqrt(v) + epsilon) + weight_decay x;   x -= rate |x| / |u| u
///
/// Where one of the norms is zero, their ratio counts as 1. With `no_decay`, parameters that the model spares have
/// neither decay nor ratio, as in the authors' experiments.
class Lamb final : public Optimizer {
 public:
  static constexpr std::string_view type_name = "lamb";
  static constexpr std::string_view summary = "Adam with steps in proportion to each tensor's norm, for large batches";
  static constexpr bool yields_momentum = false;

  struct Options {
    double lr = 0.001;  ///< for the training, which passes each step its rate
    Moments::Options moments = {.epsilon = 1e-6, .weight_decay = 0.01};
  };
  static protocol::Params<Options> params() { return moments_params<Options>(); }
  Lamb(const Options& options, const OptimizerSetting& setting) : moments_(options.moments, setting) {}

  void step(std::span<Mean> means, double learning_rate) override;
  std::vector<NamedTensor> save() const override { return moments_.save(); }
  Result<void> restore(std::span<const NamedTensor> state) override { return moments_.restore(type_name, state); }

 private:
  void subtract_at_length(const Turn& turn, double rate);

  Moments moments_;
  std::vector<at::Tensor> updates_;  ///< u, of the parameters of the turn
};

}  // namespace weir::training
