#pragma once

#include "actors/member.hpp"

namespace weir::actors {

/// What a state server does in a job.
MakeRole state_server_role();

/// The rank behind the workers that tells each of them how many local steps to make. It has no part of the model.
class StateServer final : public Member {
 public:
  explicit StateServer(runtime::ActorRef<protocol::Coordinator> coordinator);
};

}  // namespace weir::actors
