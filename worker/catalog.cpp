#include "worker/catalog.hpp"

#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "collectives/gossip/graph.hpp"
#include "collectives/topologies/catalog.hpp"
#include "collectives/topologies/ring.hpp"
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

/// The parameters of a topology with servers.
nlohmann::json servers_schema(const collectives::TopologyType& topology) {
  auto schema = protocol::empty_schema();
  auto servers =
      protocol::number_schema("integer", {.minimum = 1, .maximum = topology.servers_max}, topology.servers_summary);
  servers["type"] = {"integer", "null"};
  servers["default"] = nullptr;
  schema["properties"]["servers"] = std::move(servers);
  return schema;
}

nlohmann::json names_of(std::span<const collectives::Element> elements) {
  auto names = nlohmann::json::array();
  for (const auto element : elements) names.push_back(name_of(element));
  return names;
}

/// The topologies, each with what it states of itself: the numbers of workers it is for, "any" or "power_of_two";
/// whether it adds up (`sums`), and which `elements`; to whom payloads go that cannot be added up (`gathers`): to
/// "all", to the "owners" of shares, who encode their mean again (compressors without an `owners_misfit`), to those of
/// "regions", who add up chosen entries (`regions_misfit`), or hop by hop to "partners", who add them up and encode the
/// sums again (`partners_misfit`); whether some workers are `servers`; whether it stands for several topologies, among
/// which the workers choose; and whether it is one `on_devices`, for workers with a GPU each.
nlohmann::json topologies() {
  auto list = nlohmann::json::array();
  for (const auto& topology : collectives::all_topologies()) {
    const bool any = topology.group_size == collectives::GroupSize::any;
    list.push_back({{"name", topology.name},
                    {"summary", topology.summary},
                    {"params", topology.has_servers ? servers_schema(topology) : protocol::empty_schema()},
                    {"workers", any ? "any" : "power_of_two"},
                    {"sums", true},
                    {"elements", names_of(topology.elements)},
                    {"gathers", name_of(topology.gathers)},
                    {"servers", topology.has_servers},
                    {"automatic", false},
                    {"on_devices", topology.on_devices}});
  }
  list.push_back({{"name", training::AutoPlan::name},
                  {"summary", training::AutoPlan::summary},
                  {"params", protocol::empty_schema()},
                  {"workers", "any"},
                  {"sums", true},
                  {"elements", names_of(collectives::all_elements)},
                  {"gathers", "all"},
                  {"servers", false},
                  {"automatic", true},
                  {"on_devices", false}});
  return list;
}

/// The graphs over which mode gossip mixes models.
nlohmann::json graphs() {
  auto list = nlohmann::json::array();
  for (const auto& graph : collectives::graphs()) list.push_back({{"name", graph.name}, {"summary", graph.summary}});
  return list;
}

/// The modes, each with the topologies it works over: those whose workers exchange with neighbours need one only for
/// the mean of their models, and those with servers, or with one worker, none.
nlohmann::json modes() {
  auto list = training::modes().describe();
  for (auto& entry : list) {
    entry["topologies"] = nlohmann::json::array();
    const auto exchanges = entry.at("exchanges").get<std::string>();
    const bool all =
        exchanges == name_of(training::Exchanged::gradients) || exchanges == name_of(training::Exchanged::differences);
    for (const auto& topology : topologies()) {
      if (all || topology.at("name") == collectives::Ring::name) entry["topologies"].push_back(topology.at("name"));
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
  all["graphs"] = graphs();
  return all;
}

}  // namespace weir::worker
