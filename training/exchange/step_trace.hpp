#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collectives/fabric.hpp"
#include "protocol/traffic.hpp"
#include "training/exchange/bucket_round.hpp"
#include "training/exchange/traffic_account.hpp"

namespace weir::training {

/// Where the buckets of a step spent their time, in seconds. They pass side by side, so the sums may exceed the step.
struct PhaseTimes {
  double encode = 0;
  double wire = 0;
  double decode = 0;
};

/// Notes what each bucket of a step does and when, and attributes the bytes that the lanes move meanwhile to phases and
/// tensors. Where another rank is ahead, bytes may arrive before their message is awaited here: they count for the
/// message of the lane that is under way or, between two messages, for the later one.
///
/// Owned by the Exchange. The task of a bucket notes its spans, on the loop's thread or on a codec thread, one at a
/// time. The results may be read when no step is under way. Notes take no memory that was not reserved at the start.
class StepTrace final : public TrafficAccount {
 public:
  /// `parameters` and `fabric` must outlive this object.
  StepTrace(collectives::Fabric& fabric, std::span<const NamedTensor> parameters, std::size_t buckets);

  /// From the next step on there are other buckets.
  void divide(std::size_t buckets);

  /// What the lanes have carried so far and nobody has noted is of no bucket.
  void pass_over();

  /// An exchange has begun in a step that began at `when`. What was noted of the step before is forgotten, except in
  /// the totals; where a step has several exchanges, one after the other, times() is of the last one.
  void begin(std::chrono::steady_clock::time_point when);

  /// Notes something that a bucket does, from the construction of this object to its end.
  class Span {
   public:
    Span(StepTrace& trace, std::size_t bucket, protocol::Activity activity, std::uint32_t part, std::size_t lane = 0);
    ~Span() { trace_.add(span_); }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    StepTrace& trace_;
    protocol::BucketSpan span_;
  };

  /// Notes that a message of a bucket is on the wire, and what it costs: as part 0 what is dense, as part 1, 2, ... the
  /// payloads of the passes, as BucketSpan::part_within_hosts what stays within a host. To be used on the loop's
  /// thread. What a lane has carried since the last of its spans ended belongs to the next one that ends: one bucket of
  /// a lane has a span at a time, but where hosts sum first, sums of the next bucket may overlap payloads of this one.
  class WireSpan {
   public:
    WireSpan(StepTrace& trace, std::size_t bucket, const BucketRound::Load& load, std::uint32_t part, std::size_t lane);
    ~WireSpan() { trace_.add_wire(span_, load_); }
    WireSpan(const WireSpan&) = delete;
    WireSpan& operator=(const WireSpan&) = delete;

   private:
    StepTrace& trace_;
    const BucketRound::Load load_;
    protocol::BucketSpan span_;
  };

  /// Of the exchange, over all buckets.
  PhaseTimes times() const;

  /// The spans of the step. Its number and length are left to the caller.
  protocol::StepTimeline timeline() const;

  void count(protocol::TrafficTotals& totals) const override;
  std::optional<protocol::StepTimeline> last_step() const override { return timeline(); }

 private:
  struct OfBucket {
    PhaseTimes times;
    std::vector<protocol::BucketSpan> spans;  ///< as many as a bucket can have are reserved
    std::uint32_t dropped = 0;
  };

  double now() const;
  void add(protocol::BucketSpan span);
  void add_wire(protocol::BucketSpan span, const BucketRound::Load& load);
  void share(const protocol::ByteCounts& moved, const BucketRound::Load& load);

  collectives::Fabric& fabric_;
  const std::span<const NamedTensor> parameters_;
  std::chrono::steady_clock::time_point begin_;
  std::vector<OfBucket> buckets_;
  std::vector<protocol::ByteCounts> counted_;  ///< by lane: what has been attributed
  std::array<protocol::ByteCounts, protocol::BucketSpan::part_within_hosts + 1> parts_;
  std::vector<protocol::ByteCounts> tensors_;  ///< by parameter
};

}  // namespace weir::training
