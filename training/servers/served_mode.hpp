#pragma once

#include <cstdint>

#include "training/modes/mode.hpp"

namespace weir::training::servers {

/// What all modes with parameter servers have in common: a worker pushes the gradient of its batch to the servers,
/// whatever the other workers do, and goes on from what they answer. The modes differ in the servers' PushRule.
///
/// A step of the job is as many applied pushes as there are gradients in a step; a worker's batches are counted by its
/// own pushes. Clipping is of a worker's own gradient, also where the job asks for that of the mean: there is none.
class ServedMode : public Mode {
 public:
  explicit ServedMode(std::int64_t servers) : servers_(static_cast<std::uint32_t>(servers)) {}

  Result<bool> train(Replica& replica, Progress& progress) final;
  Exchanged exchanges() const final { return Exchanged::pushes; }
  std::uint32_t servers() const final { return servers_; }

 private:
  const std::uint32_t servers_;
};

}  // namespace weir::training::servers
