#pragma once

#include <string>

namespace CLI {
class App;
}

namespace weir::cli {

/// A script that completes the program's commands and options in "bash", "zsh" or "fish".
std::string completion_script(const CLI::App& program, const std::string& shell);

}  // namespace weir::cli
