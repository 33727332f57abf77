#pragma once

#include <memory>
#include <string_view>

#include "cli/commands/commands.hpp"

namespace weir::cli {

/// The command line: the global options and all commands but `head`, which main adds. Its own object, so that tests can
/// drive it.
class Program {
 public:
  /// `catalog`: what this build can be asked for, as JSON text; lives as long as the program.
  explicit Program(std::string_view catalog = "");

  CLI::App& app() { return app_; }
  Choice& choice() { return choice_; }

  /// Reads the command line, runs what it asks for and gives the exit code.
  int run(int count, const char* const* words);

 private:
  CLI::App app_;
  Choice choice_;
  Settings settings_;
};

}  // namespace weir::cli
