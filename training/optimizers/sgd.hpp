#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "training/optimizers/groups.hpp"
#include "training/optimizers/optimizer.hpp"
#include "training/optimizers/slices.hpp"

namespace weir::training {

/// Stochastic gradient descent with momentum, bit for bit like torch::optim::SGD:
///
///     d = g + weight_decay x;  m = momentum m + d;  x -= rate (nesterov ? d + momentum m : m)
///
/// If a memory has applied this momentum to the gradients, it is kept for the weight decay alone (as in DGC):
///
///     d = weight_decay x;      m = momentum m + d;  x -= rate (g + (nesterov ? d + momentum m : m))
///
/// If the compressor or the memory has a momentum of its own, there is none here, and `momentum` and `nesterov` have no
/// effect (as in Signum and DeMo):
///
///     x = (1 - rate weight_decay) x - rate g
class Sgd final : public Optimizer {
 public:
  static constexpr std::string_view type_name = "sgd";
  static constexpr std::string_view summary = "stochastic gradient descent with momentum and weight decay";
  static constexpr bool yields_momentum = true;

  struct Options {
    double lr = 0.05;  ///< for the training, which passes each step its rate
    double momentum = 0.9;
    bool nesterov = false;
    double weight_decay = 0;
    bool no_decay = false;  ///< for those that the model spares
    std::vector<ParameterGroup> groups{};
  };
  static protocol::Params<Options> params();
  static Result<std::unique_ptr<Optimizer>> make(Options options, const OptimizerSetting& setting);
  Sgd(Options options, OptimizerSetting setting);

  void step(std::span<Mean> means, double learning_rate) override;
  std::vector<NamedTensor> save() const override;
  Result<void> restore(std::span<const NamedTensor> state) override;

 private:
  using Tensors = std::vector<at::Tensor>;

  /// Makes the step for some entries of parameters. `momenta`: empty without.
  void change(const Tensors& parameters, const Tensors& means, const Tensors& momenta, double decay,
              double learning_rate) const;
  Tensors with_momentum(Tensors directions, const Tensors& momenta) const;

  Options options_;
  OptimizerSetting setting_;
  std::vector<ParameterRule> rules_;
  Tensors parameters_;  ///< the live ones
  std::vector<Turn> turns_;
  Tensors momenta_;  ///< undefined until a parameter's first step
};

}  // namespace weir::training
