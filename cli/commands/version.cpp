#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "cli/console.hpp"
#include "cli/exit_code.hpp"

namespace weir::cli {
namespace {

struct None {};

int version(const Settings& settings, const None&) {
  if (settings.json) {
    print(nlohmann::json{{"version", WEIR_VERSION}});
  } else {
    print(std::string("weir ") + WEIR_VERSION);
  }
  return ExitCode::ok;
}

}  // namespace

void add_version(CLI::App& program, Choice& choice) {
  add_command(program, choice, "version", "Print the version", std::make_shared<None>(), version);
}

}  // namespace weir::cli
