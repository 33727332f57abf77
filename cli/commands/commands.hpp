#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "cli/settings.hpp"

namespace weir::cli {

/// The command that the command line asked for. Each `add_...` below adds one command to the program; parsing it sets
/// `run`, which Program::run() then calls with complete settings. It returns the exit code.
struct Choice {
  std::function<int(const Settings&)> run;
};

void add_up(CLI::App& program, Choice& choice);
void add_submit(CLI::App& program, Choice& choice);
void add_head(CLI::App& program, Choice& choice);
void add_job(CLI::App& program, Choice& choice);
void add_job_traffic(CLI::App& job, Choice& choice);      ///< `weir job traffic|trace`
void add_job_checkpoints(CLI::App& job, Choice& choice);  ///< `weir job checkpoints|checkpoint`
void add_node(CLI::App& program, Choice& choice);
void add_node_queries(CLI::App& node, Choice& choice);  ///< `weir node list|show|drain|forget`
void add_actor(CLI::App& program, Choice& choice);
/// `built_in`: the catalog of this build, as JSON text.
void add_catalog(CLI::App& program, Choice& choice, std::string_view built_in);
void add_bench(CLI::App& program, Choice& choice);
void add_session(CLI::App& program, Choice& choice);
void add_token(CLI::App& program, Choice& choice);
void add_doctor(CLI::App& program, Choice& choice);
void add_version(CLI::App& program, Choice& choice);
void add_completion(CLI::App& program, Choice& choice);

/// A check of options that must not be empty, as they are where a script's variable is not set.
inline std::string not_empty(const std::string& value) { return value.empty() ? "must not be empty" : ""; }

/// Adds a command under `parent` that runs `run(settings, options)`; `options` is shared with the command line's
/// parser and lives as long as it.
template <class Options>
CLI::App* add_command(CLI::App& parent, Choice& choice, const std::string& name, const std::string& description,
                      std::shared_ptr<Options> options, int (*run)(const Settings& settings, const Options& options)) {
  CLI::App* command = parent.add_subcommand(name, description);
  command->callback([&choice, options, run] {
    choice.run = [options, run](const Settings& settings) { return run(settings, *options); };
  });
  return command;
}

}  // namespace weir::cli
