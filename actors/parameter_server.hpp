#pragma once

#include <utility>

#include "actors/member.hpp"

namespace weir::actors {

/// A server: holds some of the model's tensors, which the workers train.
class ParameterServer final : public Member {
 public:
  explicit ParameterServer(runtime::ActorRef<protocol::Coordinator> coordinator);
};

}  // namespace weir::actors
