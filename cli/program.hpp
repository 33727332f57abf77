#pragma once

#include <memory>
#include <string_view>

#include "cli/commands/commands.hpp"

namespace weir::cli {

/// The command line: the global options and all commands except `head`, which main() adds. An object of its own, so
/// that tests can use it.
class Program {
 public:
  /// `catalog`: the catalog of this build, as JSON text; must live as long as the program.
  explicit Program(std::string_view catalog = "");

  CLI::App& app() { return app_; }
  Choice& choice() { return choice_; }

  /// Parses the command line, runs the command and returns the exit code, which is not 0 if output was lost.
  int run(int count, const char* const* words);

 private:
  int parse_and_run(int count, const char* const* words);

  CLI::App app_;
  Choice choice_;
  Settings settings_;
};

}  // namespace weir::cli
