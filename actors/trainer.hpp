#pragma once

#include <utility>

#include "actors/member.hpp"

namespace weir::actors {

/// A worker: trains on its share of the examples.
class Trainer final : public Member {
 public:
  explicit Trainer(runtime::ActorRef<protocol::Coordinator> coordinator);
};

}  // namespace weir::actors
