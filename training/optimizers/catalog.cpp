#include "base/errc.hpp"
#include "training/optimizers/adam.hpp"
#include "training/optimizers/adamw.hpp"
#include "training/optimizers/lamb.hpp"
#include "training/optimizers/optimizer.hpp"
#include "training/optimizers/sgd.hpp"

namespace weir::training {

const OptimizerCatalog& optimizers() {
  static const auto catalog = OptimizerCatalog({.kind = "optimizer"}).add<Sgd>().add<Adam>().add<AdamW>().add<Lamb>();
  return catalog;
}

nlohmann::json OptimizerEntry::describe() const {
  nlohmann::json it = CatalogEntry::describe();
  it["yields_momentum"] = yields_momentum;
  return it;
}

Error OptimizerEntry::momentum_is_taken(std::string_view optimizer, MomentumOwner owner) {
  const std::string name(optimizer);
  const std::string reason = owner == MomentumOwner::memory
                                 ? "the memory applies the optimizer's momentum before compression, and " + name +
                                       " has moments of its own instead"
                                 : "the compressor or the memory has a momentum of its own in place of the "
                                   "optimizer's, and " +
                                       name + " does not work without its moments";
  return {Errc::invalid_argument, "optimizer " + name + " does not fit this compression: " + reason +
                                      "; use optimizer sgd, or a compression without momentum"};
}

MomentumOwner momentum_owner(const compressors::Traits& compressor, const compressors::MemoryTraits& memory) {
  if (compressor.owns_momentum || memory.replaces_momentum) return MomentumOwner::method;
  return memory.owns_momentum ? MomentumOwner::memory : MomentumOwner::optimizer;
}

Momentum momentum_of(const nlohmann::json& optimizer_params) {
  return {optimizer_params.value("momentum", 0.0), optimizer_params.value("nesterov", false)};
}

}  // namespace weir::training
