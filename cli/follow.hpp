#pragma once

#include <string>

#include "cli/api.hpp"

namespace weir::cli {

/// Shows a job's progress on standard error until it has ended. Returns the exit code: 0 only on SUCCEEDED. SIGINT
/// stops watching, not the job.
int follow_job(const Api& api, const std::string& id, bool json);

/// Prints the output of the job's workers until the job has ended. With several workers, each line begins with its
/// rank. `worker` < 0: all. As JSON: one line for each piece, {"job", "worker", "offset", "text"}, where offset counts
/// the bytes of the worker's output before it, and bytes that are no text are replaced by U+FFFD; else byte for byte.
/// Returns the exit code.
int follow_logs(const Api& api, const std::string& id, int worker, bool json);

/// Prints the output of the job's workers so far. Returns the exit code.
int show_logs(const Api& api, const std::string& id, int worker, bool json);

}  // namespace weir::cli
