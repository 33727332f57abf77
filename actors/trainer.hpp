#pragma once

#include "actors/member.hpp"

namespace weir::actors {

/// What a worker does in a job.
MakeRole trainer_role();

/// A worker: trains on its share of the examples.
class Trainer final : public Member {
 public:
  explicit Trainer(runtime::ActorRef<protocol::Coordinator> coordinator);
};

}  // namespace weir::actors
