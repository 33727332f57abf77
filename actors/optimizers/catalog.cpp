#include "actors/optimizers/optimizer.hpp"
#include "actors/optimizers/sgd.hpp"

namespace weir::actors {

const Menu<Optimizer, const OptimizerSetting&>& optimizers() {
  static const auto menu = Menu<Optimizer, const OptimizerSetting&>("optimizer").add<Sgd>();
  return menu;
}

Momentum momentum_of(const nlohmann::json& optimizer_params) {
  return {optimizer_params.value("momentum", 0.0), optimizer_params.value("nesterov", false)};
}

}  // namespace weir::actors
