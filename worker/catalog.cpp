#include "worker/catalog.hpp"

#include <nlohmann/json.hpp>

#include "collectives/gossip/gossip.hpp"
#include "collectives/gossip/graph.hpp"
#include "collectives/topologies/catalog.hpp"
#include "compressors/catalog.hpp"
#include "protocol/params.hpp"
#include "training/datasets/catalog.hpp"
#include "training/models/catalog.hpp"
#include "training/modes/mode.hpp"
#include "training/optimizers/optimizer.hpp"
#include "training/schedules/schedule.hpp"

namespace weir::worker {
namespace {

/// The size of a model depends on the images: these are those of the MNIST family.
constexpr training::ExampleShape usual_shape{1, 28, 28, 10};

nlohmann::json models() {
  auto list = training::models().describe();
  for (auto& entry : list) {
    const auto model = training::make_model(entry.at("name").get<std::string>(), nullptr, usual_shape, 0);
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

/// The parameters of gossip.
nlohmann::json graph_schema() {
  using collectives::GraphChoice;
  std::vector<std::string_view> names;
  for (const auto& graph : collectives::graphs()) names.push_back(graph.name);
  return protocol::Params<GraphChoice>()
      .choice("graph", &GraphChoice::name, names, "Who is whose neighbour")
      .integer("degree", &GraphChoice::degree, {.minimum = 1, .maximum = 1023},
               "Of random_regular: how many neighbours each worker has")
      .integer("seed", &GraphChoice::seed, {.minimum = 0}, "Of random_regular")
      .schema();
}

/// The topologies, each with the numbers of workers it is for, "any" or "power_of_two", whether gathered payloads go to
/// owners who encode their mean again (compressors with the trait fits_owners), whether to the owners of regions
/// instead, who add up chosen entries (those with fits_split), whether it leads to one mean of all workers, and whether
/// it stands for several of them, among which the workers choose.
nlohmann::json topologies() {
  auto list = nlohmann::json::array();
  for (const auto& topology : collectives::topologies()) {
    const bool any = topology.group_size == collectives::GroupSize::any;
    list.push_back({{"name", topology.name},
                    {"summary", topology.summary},
                    {"params", topology.has_servers ? servers_schema() : protocol::empty_schema()},
                    {"workers", any ? "any" : "power_of_two"},
                    {"by_owners", topology.by_owners},
                    {"splits", topology.splits},
                    {"one_mean", true},
                    {"automatic", false}});
  }
  list.push_back({{"name", training::AutoPlan::name},
                  {"summary", training::AutoPlan::summary},
                  {"params", protocol::empty_schema()},
                  {"workers", "any"},
                  {"by_owners", false},
                  {"splits", false},
                  {"one_mean", true},
                  {"automatic", true}});
  list.push_back({{"name", collectives::Gossip::name},
                  {"summary", collectives::Gossip::summary},
                  {"params", graph_schema()},
                  {"workers", "any"},
                  {"by_owners", false},
                  {"splits", false},
                  {"one_mean", false},
                  {"automatic", false}});
  return list;
}

/// The modes, each with the topologies it works over. All of them want one mean of all workers.
nlohmann::json modes() {
  auto list = training::modes().describe();
  for (auto& entry : list) {
    entry["topologies"] = nlohmann::json::array();
    for (const auto& topology : topologies()) {
      if (topology.at("one_mean").get<bool>()) entry["topologies"].push_back(topology.at("name"));
    }
  }
  return list;
}

}  // namespace

nlohmann::json catalog() {
  nlohmann::json all = compressors::builtin().describe();
  all["models"] = models();
  all["datasets"] = training::datasets().describe();
  all["modes"] = modes();
  all["optimizers"] = training::optimizers().describe();
  all["lr_schedules"] = training::schedules().describe();
  all["topologies"] = topologies();
  return all;
}

}  // namespace weir::worker
