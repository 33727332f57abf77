#include "cli/program.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <csignal>
#include <exception>

#include "base/errc.hpp"
#include "cli/console.hpp"
#include "cli/exit_code.hpp"
#include "cli/unknown_command.hpp"

namespace weir::cli {

Program::Program(std::string_view catalog) : app_("weir: distributed training with compressed gradients", "weir") {
  settings_.data_dir = default_data_dir();
  app_.add_option("--address", settings_.address, "HOST:PORT of the head's API, or https://HOST[:PORT]")
      ->envname("WEIR_ADDRESS");
  app_.add_option("--cacert", settings_.cacert, "For https: a file of certificate authorities instead of the system's")
      ->envname("WEIR_CACERT");
  app_.add_option(
          "--token", settings_.token,
          "The head's token; better given by WEIR_TOKEN, which others cannot see. By default the data directory's, "
          "which is sent to the head of that directory only")
      ->envname("WEIR_TOKEN");
  app_.add_option("--data-dir", settings_.data_dir, "Where a head keeps its state and its token")
      ->envname("WEIR_DATA_DIR");
  app_.add_flag(
      "--json", settings_.json,
      "JSON on standard output, for programs; errors there are {\"error\": {\"kind\", \"message\", \"exit_code\"}}");
  app_.set_version_flag("--version", std::string("weir ") + WEIR_VERSION);
  app_.require_subcommand(1);
  app_.fallthrough();  // global options may follow the command
  app_.footer(
      "Exit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 no access, 5 no head answers, 6 timeout, "
      "130 interrupted.");
  add_up(app_, choice_);
  add_submit(app_, choice_);
  add_job(app_, choice_);
  add_node(app_, choice_);
  add_actor(app_, choice_);
  add_catalog(app_, choice_, catalog);
  add_bench(app_, choice_);
  add_session(app_, choice_);
  add_token(app_, choice_);
  add_doctor(app_, choice_);
  add_version(app_, choice_);
  add_completion(app_, choice_);
}

int Program::run(int count, const char* const* words) {
  hold_output();
  const int code = parse_and_run(count, words);
  if (output_is_whole() || code != ExitCode::ok) return code;
  say("weir: standard output is closed or full");
  return ExitCode::failed;
}

int Program::parse_and_run(int count, const char* const* words) {
  std::signal(SIGPIPE, SIG_IGN);  // `weir ... | head` ends with an error of the write, not with a signal
  auto log = std::make_shared<spdlog::logger>("weir", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  spdlog::set_default_logger(std::move(log));
  try {
    if (const auto unknown = unknown_command(app_, count, words)) {
      throw CLI::ParseError(*unknown, CLI::ExitCodes::ExtrasError);
    }
    app_.parse(count, words);
    set_json(settings_.json);
  } catch (const CLI::ParseError& e) {
    if (app_.exit(e) == 0) return ExitCode::ok;
    // --json may follow the word that was not understood.
    set_json(std::any_of(words, words + count, [](const char* word) { return std::string_view(word) == "--json"; }));
    complain_of_usage(e.what());
    return ExitCode::usage;
  }
  try {
    return choice_.run(settings_);
  } catch (const std::exception& e) {
    return complain({Errc::internal, e.what()});
  }
}

}  // namespace weir::cli
