#pragma once

#include <optional>
#include <span>

#include "collectives/fabric.hpp"
#include "protocol/traffic.hpp"
#include "training/models/model.hpp"

namespace weir::training {

/// What a rank has moved to and from the others, by phase and tensor. To be read on the thread that uses the group, and
/// when no step is under way.
class TrafficAccount {
 public:
  virtual ~TrafficAccount() = default;

  /// Adds all phases and tensors since the group was joined.
  virtual void count(protocol::TrafficTotals& totals) const = 0;

  /// What the buckets of the last step did; nothing where no buckets are exchanged. Its number and length are left to
  /// the caller.
  virtual std::optional<protocol::StepTimeline> last_step() const { return std::nullopt; }
};

/// All that a rank has moved in its group: the links, what the account, if there is one, says of phases and tensors,
/// and as phase "other" what it does not know of. The step is left to the caller.
protocol::TrafficTotals totals_of(const collectives::Fabric& group, const TrafficAccount* account);

/// Names those of the tensors that have most of `all`; what is left of it is the rest. `bytes`: by parameter.
void count_tensors(protocol::TrafficTotals& totals, std::span<const NamedTensor> parameters,
                   std::span<const protocol::ByteCounts> bytes, const protocol::ByteCounts& all);

}  // namespace weir::training
