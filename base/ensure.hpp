#pragma once

#include <source_location>
#include <string_view>

namespace weir {

[[noreturn]] void ensure_failed(std::string_view what, std::source_location where);

/// States an invariant of our own code, in every build. A false condition is a bug here, never bad input: the process
/// prints the place and aborts.
inline void ensure(bool condition, std::string_view what,
                   std::source_location where = std::source_location::current()) {
  if (!condition) [[unlikely]]
    ensure_failed(what, where);
}

}  // namespace weir
