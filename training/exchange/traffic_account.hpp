#pragma once

#include <optional>
#include <span>

#include "collectives/fabric.hpp"
#include "protocol/traffic.hpp"
#include "training/models/model.hpp"

namespace weir::training {

/// What a rank has moved to and from the others, for its reports. To be read on the thread that uses the group, when no
/// step is under way.
class TrafficAccount {
 public:
  virtual ~TrafficAccount() = default;

  /// All bytes since the construction of the fabric. The step is left to the caller.
  virtual protocol::TrafficTotals totals() const = 0;

  /// What the buckets of the last step did; nothing where no buckets are exchanged. Its number and length are left to
  /// the caller.
  virtual std::optional<protocol::StepTimeline> last_step() const { return std::nullopt; }
};

/// The same of a whole group, where `part` knows of some of its ranks or lanes only, or where there is no `part`. What
/// it does not know counts as phase "other".
class GroupTraffic final : public TrafficAccount {
 public:
  /// Both must outlive this object.
  explicit GroupTraffic(const collectives::Fabric& group, const TrafficAccount* part = nullptr)
      : group_(group), part_(part) {}

  protocol::TrafficTotals totals() const override;
  std::optional<protocol::StepTimeline> last_step() const override;

 private:
  const collectives::Fabric& group_;
  const TrafficAccount* const part_;
};

/// Names the links of a rank in its group, and as phase "other" what they have carried beyond the other phases.
void count_links(protocol::TrafficTotals& totals, const collectives::Fabric& fabric);

/// Names those of the tensors that have most of `all`; what is left of it is the rest. `bytes`: by parameter.
void count_tensors(protocol::TrafficTotals& totals, std::span<const NamedTensor> parameters,
                   std::span<const protocol::ByteCounts> bytes, const protocol::ByteCounts& all);

}  // namespace weir::training
