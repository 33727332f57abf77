#pragma once

#include "worker/worker_actor.hpp"

namespace weir::worker {

/// `weir-worker run`: serves one slot until its agent, the head or a signal ends it. What it is told and how it exits:
/// protocol/worker_environment.hpp.
int run(const ActorTypes& types);

}  // namespace weir::worker
