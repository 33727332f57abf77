#pragma once

#include "base/result.hpp"

namespace weir::cli {

/// The exit codes of commands, for scripts.
enum ExitCode : int {
  ok = 0,
  failed = 1,  ///< the job failed, or the command could not be carried out
  usage = 2,
  not_found = 3,
  no_access = 4,
  unreachable = 5,
  timeout = 6,
  interrupted = 130,
};

/// The exit code for an error.
int exit_code(const Error& error);

}  // namespace weir::cli
