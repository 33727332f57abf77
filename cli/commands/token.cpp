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

int show(const Settings& settings, const None&) {
  const std::string token = head_token(settings);
  if (token.empty()) {
    return complain({Errc::not_found, "no token in " + settings.data_dir.string() +
                                          ": the head of that data directory writes it when it first starts"});
  }
  if (settings.json) {
    print(nlohmann::json{{"token", token}});
  } else {
    print(token);
  }
  return ExitCode::ok;
}

int link(const Settings& settings, const None&) {
  auto answer = Api(settings).post("/api/v1/session/links");
  if (!answer) return complain(answer.error());
  if (settings.json) {
    print(*answer);
  } else {
    print(text(*answer, "url"));
    say("opens the dashboard, once, until " + text(*answer, "expires_at"));
  }
  return ExitCode::ok;
}

}  // namespace

void add_token(CLI::App& program, Choice& choice) {
  CLI::App& token = *program.add_subcommand("token", "The token that opens a head");
  token.require_subcommand(1);
  add_command(token, choice, "show", "Print the token of this data directory's head", std::make_shared<None>(), show);
  add_command(token, choice, "link", "Print a link that opens the dashboard, once", std::make_shared<None>(), link);
}

}  // namespace weir::cli
