#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "training/modes/mode.hpp"
#include "training/servers/client.hpp"

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
  Result<void> check(const protocol::JobSpec& spec, std::uint32_t world,
                     const compressors::Compression& compression) const final;
  Result<void> join(Replica& replica, collectives::Fabric& fabric) final;
  bool own_models() const final { return true; }
  const TrafficAccount* traffic(const Replica& replica) const final;
  ModeState save() const final;
  Result<void> restore(Replica& replica, std::span<const NamedTensor> common, std::span<const NamedTensor> own) final;

 private:
  std::uint64_t pushes_ = 0;        ///< restored, and for the client that join() makes
  std::unique_ptr<Client> client_;  ///< of a worker, from join() on
};

}  // namespace weir::training::servers
