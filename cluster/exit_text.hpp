#pragma once

#include <string>

#include "protocol/node.hpp"

namespace weir::cluster {

/// How a process ended: "was killed by signal 9 (Killed)" or "exited with code 1".
std::string how_it_ended(const protocol::WorkerExit& exit);

/// What the end of the process's output says of it: its last line that is not empty or, if the loader did not start it,
/// the library that is missing. Empty, or begins with "; ".
std::string last_words_of(const protocol::WorkerExit& exit);

}  // namespace weir::cluster
