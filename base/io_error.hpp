#pragma once

#include <cerrno>
#include <string>
#include <system_error>

#include "base/errc.hpp"
#include "base/result.hpp"

namespace weir {

/// Why the system could not do `what` with a file: exhausted if the disk, or a user's share of it, is full, else io.
inline Error io_error(const std::string& what, int number = errno) {
  return {number == ENOSPC || number == EDQUOT ? Errc::exhausted : Errc::io,
          what + ": " + std::generic_category().message(number)};
}

}  // namespace weir
