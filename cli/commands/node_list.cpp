#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/api.hpp"
#include "cli/commands/commands.hpp"
#include "cli/console.hpp"
#include "cli/exit_code.hpp"
#include "cli/format.hpp"

namespace weir::cli {
namespace {

struct All {};

struct One {
  std::string id;
};

/// "cpu 2/4, memory 1.0 GB/8.0 GB"
std::string resources(const nlohmann::json& node) {
  std::string line;
  for (const auto& [name, total] : member(node, "resources").items()) {
    const auto amount = [&](const nlohmann::json& value) {
      return name == "memory" && value.is_number() ? bytes_text(value.get<double>()) : value_text(value);
    };
    const nlohmann::json used = number(member(node, "used"), name.c_str());
    line += (line.empty() ? "" : ", ") + name + " " + amount(used) + "/" + amount(total);
  }
  return line;
}

/// "0: 43 %, 1: unknown": how busy each GPU is.
std::string gpus(const nlohmann::json& node) {
  const nlohmann::json& all = member(node, "gpus");
  if (!all.is_array() || all.empty()) return "-";
  std::string line;
  for (const auto& gpu : all) {
    const nlohmann::json& busy = member(gpu, "utilization");
    line += (line.empty() ? "" : ", ") + value_text(member(gpu, "index")) + ": ";
    line += text(gpu, "state") == "lost" ? "lost"
            : busy.is_number()           ? value_text(std::round(100 * busy.get<double>())) + " %"
                                         : "unknown";
  }
  return line;
}

int list(const Settings& settings, const All&) {
  auto nodes = Api(settings).list("/api/v1/nodes", "nodes");
  if (!nodes) return complain(nodes.error());
  if (settings.json) {
    print(nlohmann::json{{"nodes", nodes->items}, {"next", nullptr}});
    return ExitCode::ok;
  }
  Table table({"NAME", "ID", "STATE", "HOST", "USED/TOTAL", "LOAD", "GPUS", "WORKERS"});
  for (const nlohmann::json& node : nodes->items) {
    const nlohmann::json& workers = member(node, "workers");
    table.add({text(node, "name"), text(node, "id"), text(node, "state"), text(node, "host"), resources(node),
               value_text(member(node, "cpu_load")), gpus(node),
               workers.is_array() ? std::to_string(workers.size()) : "-"});
  }
  print(table.str());
  return ExitCode::ok;
}

int show(const Settings& settings, const One& options) {
  auto node = Api(settings).get("/api/v1/nodes/" + percent_encoded(options.id));
  if (!node) return complain(node.error());
  print(*node);
  return ExitCode::ok;
}

struct Drain {
  std::string id;
  bool undo = false;
};

int drain(const Settings& settings, const Drain& options) {
  const std::string target = "/api/v1/nodes/" + percent_encoded(options.id) + "/drain";
  const Api api(settings);
  auto node = options.undo ? api.remove(target) : api.post(target);
  if (!node) return complain(node.error());
  if (settings.json) {
    print(*node);
  } else {
    const std::string state = text(*node, "state");
    const char* undone = state == "lost" ? ": when it joins again, it takes work" : ": it takes work again";
    say(text(*node, "name") + " is " + state + (options.undo ? undone : ": nothing new is placed there"));
  }
  return ExitCode::ok;
}

int forget(const Settings& settings, const One& options) {
  auto done = Api(settings).remove("/api/v1/nodes/" + percent_encoded(options.id));
  if (!done) return complain(done.error());
  if (settings.json) {
    print(nlohmann::json{{"forgotten", options.id}});
  } else {
    say("forgot " + options.id + ": if it joins again, it is a new node");
  }
  return ExitCode::ok;
}

}  // namespace

void add_node_queries(CLI::App& node, Choice& choice) {
  add_command(node, choice, "list", "The cluster's nodes", std::make_shared<All>(), list);
  auto shown = std::make_shared<One>();
  add_command(node, choice, "show", "One node, as JSON", shown, show)
      ->add_option("id", shown->id, "The node's id or name")
      ->check(not_empty)
      ->required();
  auto drained = std::make_shared<Drain>();
  auto* command =
      add_command(node, choice, "drain", "Place nothing more on a node, until this is undone; what runs there goes on",
                  drained, drain);
  command->add_option("id", drained->id, "The node's id or name")->check(not_empty)->required();
  command->add_flag("--undo", drained->undo, "Let the node take work again");
  auto forgotten = std::make_shared<One>();
  add_command(node, choice, "forget", "Take a lost node off the list; if it joins again, it is a new one, not drained",
              forgotten, forget)
      ->add_option("id", forgotten->id, "The node's id or name")
      ->check(not_empty)
      ->required();
}

}  // namespace weir::cli
