#pragma once

#include "worker/worker_actor.hpp"

namespace weir::worker {

/// `weir-worker run`: serves one slot until its agent, the head or a signal ends it. For its inputs and exit codes see
/// protocol/worker_environment.hpp.
int run(const ActorTypes& types);

}  // namespace weir::worker
