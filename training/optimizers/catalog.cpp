#include "training/optimizers/optimizer.hpp"
#include "training/optimizers/sgd.hpp"

namespace weir::training {

const OptimizerCatalog& optimizers() {
  static const auto catalog = OptimizerCatalog({.kind = "optimizer"}).add<Sgd>();
  return catalog;
}

MomentumOwner momentum_owner(const compressors::Traits& compressor, const compressors::MemoryTraits& memory) {
  if (compressor.owns_momentum || memory.replaces_momentum) return MomentumOwner::method;
  return memory.owns_momentum ? MomentumOwner::memory : MomentumOwner::optimizer;
}

Momentum momentum_of(const nlohmann::json& optimizer_params) {
  return {optimizer_params.value("momentum", 0.0), optimizer_params.value("nesterov", false)};
}

}  // namespace weir::training
