#pragma once

#include <array>

#include "training/modes/mode.hpp"

namespace weir::training::servers {

/// What all modes with parameter servers have in common: a worker pushes the gradient of its batch to the servers,
/// whatever the other workers do, and goes on from what they answer. The modes differ in the servers' PushRule.
///
/// A step of the job is as many applied pushes as there are gradients in a step; a worker's batches are counted by its
/// own pushes. Clipping is of a worker's own gradient, also where the job asks for that of the mean: there is none.
class ServedMode : public Mode {
 public:
  static constexpr Exchanged type_exchanges = Exchanged::pushes;
  /// The parameter of all of them that says how many servers there are.
  static constexpr std::array roles = {protocol::RoleNeed{protocol::Role::server, "servers"}};

  Result<bool> train(Replica& replica, Progress& progress) final;
  Exchanged exchanges() const final { return Exchanged::pushes; }
};

}  // namespace weir::training::servers
