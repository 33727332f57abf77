#pragma once

#include <string>

#include "protocol/node.hpp"

namespace weir::cluster {

/// How a process ended: "was killed by signal 9 (Killed)" or "exited with code 1".
std::string how_it_ended(const protocol::WorkerExit& exit);

/// The last line of the process's output that is not empty.
std::string last_line_of(const protocol::WorkerExit& exit);

}  // namespace weir::cluster
