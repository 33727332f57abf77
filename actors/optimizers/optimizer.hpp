#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "actors/menu.hpp"
#include "compressors/compressor.hpp"

namespace weir::actors {

using compressors::NamedTensor;

/// What an optimizer has to know of the training it serves.
struct OptimizerSetting {
  std::vector<NamedTensor> parameters;  ///< aliasing the live ones
  bool momentum_applied = false;        ///< gradients come with momentum in them (owns_momentum)
};

/// Turns averaged gradients into new parameters: a deterministic function of both and of its state. Owned and
/// used by one thread.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// One step with one gradient per parameter, in their order. The gradients may be overwritten.
  virtual void step(std::span<const at::Tensor> gradients, double learning_rate) = 0;

  /// State for a checkpoint, aliasing the live one.
  virtual std::vector<NamedTensor> save() const = 0;
  /// Replaces the state by copies. Fails with: malformed (not what save() gives).
  virtual Result<void> restore(std::span<const NamedTensor> state) = 0;
};

/// Every optimizer; what they are made of is training.optimizer of the job spec without its name.
const Menu<Optimizer, const OptimizerSetting&>& optimizers();

/// The `momentum` and `nesterov` that a memory which takes momentum over has to apply; 0 and false for
/// optimizers without.
struct Momentum {
  double factor = 0;
  bool nesterov = false;
};
Momentum momentum_of(const nlohmann::json& optimizer_params);

}  // namespace weir::actors
