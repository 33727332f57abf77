#pragma once

#include "base/result.hpp"

namespace weir::cli {

/// How a command ends, for scripts.
enum ExitCode : int {
  ok = 0,
  failed = 1,  ///< the job failed, or what was asked could not be done
  usage = 2,
  not_found = 3,
  no_access = 4,
  unreachable = 5,
  timeout = 6,
  interrupted = 130,
};

/// The exit code that an error of a command leads to.
int exit_code(const Error& error);

}  // namespace weir::cli
