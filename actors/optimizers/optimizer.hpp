#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "actors/menu.hpp"
#include "compressors/compressor.hpp"
#include "compressors/memory.hpp"

namespace weir::actors {

using compressors::NamedTensor;

/// Who applies momentum to the gradients of a training, and what follows for weight decay. In every case the decay is
/// taken of the parameters as they are before the step.
enum class MomentumOwner : std::uint8_t {
  /// The optimizer applies it, to gradient and decay together.
  optimizer,
  /// The memory has applied the optimizer's momentum to the gradients already (DGC). The decay, which no memory sees,
  /// gets the same momentum from the optimizer.
  memory,
  /// The compressor or the memory has a momentum of its own in the place of the optimizer's (Signum, DeMo, EF21-SGDM).
  /// The optimizer applies none, and the decay acts on the parameters alone: x is multiplied by 1 - rate * decay.
  method,
};

/// The owner for what `compressor` and `memory` say of themselves.
MomentumOwner momentum_owner(const compressors::Traits& compressor, const compressors::MemoryTraits& memory);

/// What an optimizer has to know of the training it serves.
struct OptimizerSetting {
  std::vector<NamedTensor> parameters;  ///< aliasing the live ones
  MomentumOwner momentum_owner = MomentumOwner::optimizer;
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
