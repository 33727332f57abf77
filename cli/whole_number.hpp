#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <string>

namespace weir::cli {

/// Checks that an option's value is a whole number of at least `least`. CLI::Range has an upper bound, too, and names
/// it with 309 digits where there is none.
inline CLI::Validator whole_number(std::int64_t least) {
  const auto check = [least](const std::string& text) -> std::string {
    std::int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, value);
    if (read.ec == std::errc{} && read.ptr == end && value >= least) return "";
    return "\"" + text + "\" is not a whole number of at least " + std::to_string(least);
  };
  return CLI::Validator(check, "at least " + std::to_string(least));
}

}  // namespace weir::cli
