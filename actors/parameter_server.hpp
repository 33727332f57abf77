#pragma once

#include "actors/member.hpp"

namespace weir::actors {

/// What a parameter server does in a job.
MakeRole parameter_server_role();

/// A server: holds some of the model's tensors, which the workers train.
class ParameterServer final : public Member {
 public:
  explicit ParameterServer(runtime::ActorRef<protocol::Coordinator> coordinator);
};

}  // namespace weir::actors
