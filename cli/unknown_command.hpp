#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

namespace weir::cli {

/// What to say of a command line that names a command which `program` does not have; nothing if it names none such.
/// CLI11 would say that a command is missing, or print the help that such a line also asks for.
std::optional<std::string> unknown_command(const CLI::App& program, int count, const char* const* words);

}  // namespace weir::cli
