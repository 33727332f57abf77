#include <nlohmann/json.hpp>

#include "cli/api.hpp"
#include "cli/commands/commands.hpp"
#include "cli/console.hpp"
#include "cli/exit_code.hpp"
#include "cli/format.hpp"

namespace weir::cli {
namespace {

struct List {
  std::string search;
  std::size_t limit = 1000;
};

struct One {
  std::string name;
};

std::string actor_path(const std::string& name) { return "/api/v1/actors/" + percent_encoded(name); }

int list(const Settings& settings, const List& options) {
  const std::string query = options.search.empty() ? "" : "q=" + percent_encoded(options.search) + "&";
  auto actors = Api(settings).list("/api/v1/actors", "actors", query, options.limit);
  if (!actors) return complain(actors.error());
  if (settings.json) {
    print(nlohmann::json{{"actors", actors->items}, {"next", actors->next}});
    return ExitCode::ok;
  }
  Table table({"NAME", "TYPE", "STATE", "NODE", "JOB", "WAITING", "HANDLED"});
  for (const nlohmann::json& actor : actors->items) {
    table.add({text(actor, "name"), text(actor, "type"), text(actor, "state"), value_text(member(actor, "node")),
               value_text(member(actor, "job")), value_text(member(actor, "mailbox_depth")),
               value_text(member(actor, "messages_handled"))});
  }
  print(table.str());
  if (actors->next.is_string()) say("There are more: --limit " + std::to_string(2 * options.limit));
  return ExitCode::ok;
}

int show(const Settings& settings, const One& options) {
  auto actor = Api(settings).get(actor_path(options.name));
  if (!actor) return complain(actor.error());
  print(*actor);
  return ExitCode::ok;
}

}  // namespace

void add_actor(CLI::App& program, Choice& choice) {
  CLI::App& actor = *program.add_subcommand("actor", "Look at actors");
  actor.require_subcommand(1);
  auto listed = std::make_shared<List>();
  CLI::App* command = add_command(actor, choice, "list", "The cluster's actors, by name", listed, list);
  command->add_option("--search", listed->search, "Only those whose name or type contains this");
  command->add_option("--limit", listed->limit, "How many")->check(CLI::Range(1, 1'000'000))->capture_default_str();

  auto shown = std::make_shared<One>();
  add_command(actor, choice, "show", "One actor, as JSON", shown, show)
      ->add_option("name", shown->name, "The actor's name")
      ->check(not_empty)
      ->required();
}

}  // namespace weir::cli
