#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "compressors/compressor.hpp"
#include "compressors/memory.hpp"
#include "protocol/catalog.hpp"
#include "training/exchange/mean.hpp"

namespace weir::training {

using compressors::NamedTensor;

/// Who applies momentum to the gradients of a training, and how weight decay is applied as a result. In all cases the
/// decay is computed from the parameters as they are before the step.
enum class MomentumOwner : std::uint8_t {
  /// The optimizer applies it, to gradient and decay together.
  optimizer,
  /// The memory has already applied the optimizer's momentum to the gradients (DGC). The decay, which memories do not
  /// see, gets the same momentum from the optimizer.
  memory,
  /// The compressor or the memory has a momentum of its own instead of the optimizer's (Signum, DeMo, EF21-SGDM). The
  /// optimizer applies none, and the decay acts on the parameters alone: x is multiplied by 1 - rate * decay.
  method,
};

/// The owner that follows from the traits of the compressor and the memory.
MomentumOwner momentum_owner(const compressors::Traits& compressor, const compressors::MemoryTraits& memory);

/// What an optimizer needs to know of its training.
struct OptimizerSetting {
  std::vector<NamedTensor> parameters;  ///< they alias the live ones
  MomentumOwner momentum_owner = MomentumOwner::optimizer;
  std::vector<bool> decays = {};  ///< of each parameter, as the model declares (Model::decays); empty: all do

  /// Whether weight decay applies to a parameter: to all, or with an optimizer's `no_decay` to those that the model
  /// declares.
  bool decay_applies(std::size_t parameter, bool no_decay) const {
    return !no_decay || decays.empty() || decays[parameter];
  }
};

/// Without their names.
inline std::vector<at::Tensor> tensors_of(std::span<const NamedTensor> named) {
  std::vector<at::Tensor> tensors;
  for (const auto& one : named) tensors.push_back(one.tensor);
  return tensors;
}

/// Of one mean per parameter, the tensors.
inline std::vector<at::Tensor> tensors_of(std::span<const Mean> means) {
  std::vector<at::Tensor> tensors;
  for (const auto& mean : means) tensors.push_back(mean.tensor);
  return tensors;
}

/// Turns averaged gradients into new parameters: a deterministic function of both and of its own state. Owned and used
/// by one thread.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Makes one step. `means` has one tensor per parameter, in their order. Sparse ones may be used up: their entries
  /// set to zero, and the positions forgotten.
  virtual void step(std::span<Mean> means, double learning_rate) = 0;

  /// State for a checkpoint. The tensors alias the live ones.
  virtual std::vector<NamedTensor> save() const = 0;
  /// Replaces the state by copies. Fails with: malformed (not a state from save()).
  virtual Result<void> restore(std::span<const NamedTensor> state) = 0;
};

/// What `no_decay` is for: pulling such parameters to zero does not make a model simpler. The model declares them.
inline constexpr std::string_view no_decay_means = "No weight decay for biases and the weights of normalizations.";

/// An optimizer in the catalog. Beside what protocol::CatalogEntry asks for, its class has
///
///     static constexpr bool yields_momentum;  // whether it can work without applying momentum itself
///
/// One that does not yield it is refused, with invalid_argument, for a training whose momentum another part owns.
struct OptimizerEntry : protocol::CatalogEntry<Optimizer, const OptimizerSetting&> {
  bool yields_momentum = true;

  template <class T>
  static OptimizerEntry of(const protocol::CatalogWords& words) {
    OptimizerEntry entry{CatalogEntry::of<T>(words), T::yields_momentum};
    if constexpr (!T::yields_momentum) {
      entry.make = [make = std::move(entry.make)](
                       const nlohmann::json& params,
                       const OptimizerSetting& setting) -> Result<std::unique_ptr<Optimizer>> {
        if (setting.momentum_owner != MomentumOwner::optimizer) {
          return momentum_is_taken(T::type_name, setting.momentum_owner);
        }
        return make(params, setting);
      };
    }
    return entry;
  }

  /// {"name", "summary", "params", "yields_momentum"}
  nlohmann::json describe() const;

 private:
  static Error momentum_is_taken(std::string_view optimizer, MomentumOwner owner);
};

/// The parameters are training.optimizer of the job spec without its name.
using OptimizerCatalog = protocol::Catalog<OptimizerEntry>;

/// All optimizers.
const OptimizerCatalog& optimizers();

/// The `momentum` and `nesterov` that a memory which applies the optimizer's momentum has to use; 0 and false for
/// optimizers without momentum.
struct Momentum {
  double factor = 0;
  bool nesterov = false;
};
Momentum momentum_of(const nlohmann::json& optimizer_params);

}  // namespace weir::training
