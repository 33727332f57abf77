#include "worker/catalog.hpp"

#include <nlohmann/json.hpp>

#include "actors/datasets/catalog.hpp"
#include "actors/models/catalog.hpp"
#include "actors/modes/mode.hpp"
#include "actors/optimizers/optimizer.hpp"
#include "actors/schedules/schedule.hpp"
#include "compressors/catalog.hpp"

namespace weir::worker {
namespace {

/// The size of a model depends on the images: these are those of the MNIST family.
constexpr actors::ExampleShape usual_shape{1, 28, 28, 10};

nlohmann::json models() {
  auto list = actors::models().describe();
  for (auto& entry : list) {
    const auto model = actors::make_model(entry.at("name").get<std::string>(), nullptr, usual_shape, 0);
    if (!model) continue;
    std::int64_t parameters = 0;
    for (const auto& [name, tensor] : (*model)->parameters()) parameters += tensor.numel();
    entry["parameters"] = parameters;
  }
  return list;
}

/// The modes, each with the topologies it works over.
nlohmann::json modes() {
  auto list = actors::modes().describe();
  for (auto& entry : list) entry["topologies"] = {"ring"};
  return list;
}

}  // namespace

nlohmann::json catalog() {
  nlohmann::json all = compressors::builtin().describe();
  all["models"] = models();
  all["datasets"] = actors::datasets().describe();
  all["modes"] = modes();
  all["optimizers"] = actors::optimizers().describe();
  all["lr_schedules"] = actors::schedules().describe();
  all["topologies"] = {{{"name", "ring"},
                        {"summary", "all-reduce and all-gather around a ring; every link carries the same load"},
                        {"params", actors::no_params()}}};
  return all;
}

}  // namespace weir::worker
