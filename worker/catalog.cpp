#include "worker/catalog.hpp"

#include <nlohmann/json.hpp>

#include "actors/datasets/catalog.hpp"
#include "actors/models/catalog.hpp"
#include "actors/modes/mode.hpp"
#include "actors/optimizers/optimizer.hpp"
#include "actors/schedules/schedule.hpp"
#include "collectives/topologies/catalog.hpp"
#include "compressors/catalog.hpp"
#include "protocol/params.hpp"

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

/// The parameters of the parameter server.
nlohmann::json servers_schema() {
  auto schema = protocol::empty_schema();
  schema["properties"]["servers"] = {{"description", "How many workers are servers too; null: all"},
                                     {"type", {"integer", "null"}},
                                     {"minimum", 1},
                                     {"maximum", 1024},
                                     {"default", nullptr}};
  return schema;
}

/// The topologies, each with the numbers of workers it is for, "any" or "power_of_two", and whether gathered payloads
/// go to owners who encode their mean again.
nlohmann::json topologies() {
  auto list = nlohmann::json::array();
  for (const auto& topology : collectives::topologies()) {
    const bool any = topology.group_size == collectives::GroupSize::any;
    list.push_back({{"name", topology.name},
                    {"summary", topology.summary},
                    {"params", topology.has_servers ? servers_schema() : protocol::empty_schema()},
                    {"workers", any ? "any" : "power_of_two"},
                    {"by_owners", topology.by_owners}});
  }
  return list;
}

/// The modes, each with the topologies it works over.
nlohmann::json modes() {
  auto list = actors::modes().describe();
  for (auto& entry : list) {
    entry["topologies"] = nlohmann::json::array();
    for (const auto& topology : collectives::topologies()) entry["topologies"].push_back(topology.name);
  }
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
  all["topologies"] = topologies();
  return all;
}

}  // namespace weir::worker
