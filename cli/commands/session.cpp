#include <nlohmann/json.hpp>

#include "base/errc.hpp"
#include "cli/api.hpp"
#include "cli/commands/commands.hpp"
#include "cli/console.hpp"
#include "cli/exit_code.hpp"
#include "cli/format.hpp"

namespace weir::cli {
namespace {

struct None {};

struct Revocation {
  std::string id;
  bool all = false;
};

int list(const Settings& settings, const None&) {
  auto answer = Api(settings).get("/api/v1/sessions");
  if (!answer) return complain(answer.error());
  if (settings.json) {
    print(*answer);
    return ExitCode::ok;
  }
  Table table({"ID", "BEGAN", "ENDS", "ADDRESS", "BROWSER"});
  for (const nlohmann::json& session : member(*answer, "sessions")) {
    table.add({text(session, "id"), text(session, "created_at"), text(session, "expires_at"), text(session, "address"),
               text(session, "agent")});
  }
  print(table.str());
  return ExitCode::ok;
}

int revoke(const Settings& settings, const Revocation& options) {
  if (options.id.empty() != options.all) {
    return complain({Errc::invalid_argument, "say which session to end: its id, or --all"});
  }
  const std::string path = "/api/v1/sessions";
  auto answer = Api(settings).remove(options.all ? path : path + "/" + percent_encoded(options.id));
  if (!answer) return complain(answer.error());
  const nlohmann::json outcome = options.all ? *answer : nlohmann::json{{"revoked", 1}};
  if (settings.json) {
    print(outcome);
  } else {
    say("sessions ended: " + value_text(member(outcome, "revoked")));
  }
  return ExitCode::ok;
}

}  // namespace

void add_session(CLI::App& program, Choice& choice) {
  CLI::App& session = *program.add_subcommand("session", "The browsers that are logged in to a head");
  session.require_subcommand(1);
  add_command(session, choice, "list", "Who is logged in, since when and until when", std::make_shared<None>(), list);
  auto options = std::make_shared<Revocation>();
  CLI::App* command = add_command(session, choice, "revoke", "Log a browser out, or all of them", options, revoke);
  command->add_option("id", options->id, "The session's id, as in the list")->check(not_empty);
  command->add_flag("--all", options->all, "Every session");
}

}  // namespace weir::cli
