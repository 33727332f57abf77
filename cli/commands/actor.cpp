#include <nlohmann/json.hpp>

#include "base/errc.hpp"
#include "cli/api.hpp"
#include "cli/commands/commands.hpp"
#include "cli/console.hpp"
#include "cli/exit_code.hpp"
#include "cli/format.hpp"

namespace weir::cli {
namespace {

struct All {
  std::size_t limit = 1000;
};

struct One {
  std::string name;
};

struct Call {
  std::string name;
  std::string method;
  std::string arguments = "[]";
};

std::string actor_path(const std::string& name) { return "/api/v1/actors/" + percent_encoded(name); }

int list(const Settings& settings, const All& options) {
  auto answer = Api(settings).get("/api/v1/actors?limit=" + std::to_string(options.limit));
  if (!answer) return complain(answer.error());
  if (settings.json) {
    print(*answer);
    return ExitCode::ok;
  }
  Table table({"NAME", "TYPE", "STATE", "NODE", "JOB", "WAITING", "HANDLED"});
  for (const nlohmann::json& actor : member(*answer, "actors")) {
    table.add({text(actor, "name"), text(actor, "type"), text(actor, "state"), value_text(member(actor, "node")),
               value_text(member(actor, "job")), value_text(member(actor, "mailbox_depth")),
               value_text(member(actor, "messages_handled"))});
  }
  print(table.str());
  return ExitCode::ok;
}

int print_answer(const Result<nlohmann::json>& answer) {
  if (!answer) return complain(answer.error());
  if (!answer->is_null()) print(*answer);
  return ExitCode::ok;
}

int show(const Settings& settings, const One& options) {
  return print_answer(Api(settings).get(actor_path(options.name)));
}

int call(const Settings& settings, const Call& options) {
  const auto arguments = nlohmann::json::parse(options.arguments, nullptr, false);
  if (arguments.is_discarded()) {
    return complain({Errc::invalid_argument, "the arguments are not JSON: " + options.arguments});
  }
  return print_answer(
      Api(settings).post(actor_path(options.name) + "/call/" + percent_encoded(options.method), arguments));
}

int kill(const Settings& settings, const One& options) {
  return print_answer(Api(settings).remove(actor_path(options.name)));
}

}  // namespace

void add_actor(CLI::App& program, Choice& choice) {
  CLI::App& actor = *program.add_subcommand("actor", "Look at actors, call and end them");
  actor.require_subcommand(1);
  auto listed = std::make_shared<All>();
  add_command(actor, choice, "list", "The cluster's actors, by name", listed, list)
      ->add_option("--limit", listed->limit, "How many")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();

  auto shown = std::make_shared<One>();
  add_command(actor, choice, "show", "One actor, as JSON", shown, show)
      ->add_option("name", shown->name, "The actor's name")
      ->required();

  auto called = std::make_shared<Call>();
  CLI::App* command = add_command(actor, choice, "call", "Call a method and print its result", called, call);
  command->add_option("name", called->name, "The actor's name")->required();
  command->add_option("method", called->method, "The method")->required();
  command->add_option("arguments", called->arguments, "JSON")->capture_default_str();

  auto killed = std::make_shared<One>();
  add_command(actor, choice, "kill", "End an actor", killed, kill)
      ->add_option("name", killed->name, "The actor's name")
      ->required();
}

}  // namespace weir::cli
