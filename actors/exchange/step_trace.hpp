#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "actors/exchange/bucket_round.hpp"
#include "collectives/fabric.hpp"
#include "protocol/traffic.hpp"

namespace weir::actors {

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
/// Owned by the Exchange. The task of a bucket notes its spans, on the loop's thread or on the codec thread, one at a
/// time. The results may be read when no step is under way. Notes take no memory that was not reserved at the start.
class StepTrace {
 public:
  /// `parameters` and `fabric` must outlive this object.
  StepTrace(collectives::Fabric& fabric, std::span<const NamedTensor> parameters, std::size_t buckets);

  /// A step begins: what was noted of the one before is forgotten, except in the totals.
  void begin();

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

  /// Notes that a message of a bucket is on the wire, and what it costs: dense(), if `part` is 0, or the payload of
  /// pass `part` of the round. To be used on the loop's thread, by one bucket of a lane at a time.
  class WireSpan {
   public:
    WireSpan(StepTrace& trace, std::size_t bucket, BucketRound& round, std::uint32_t part, std::size_t lane);
    ~WireSpan() { trace_.add_wire(span_, round_); }
    WireSpan(const WireSpan&) = delete;
    WireSpan& operator=(const WireSpan&) = delete;

   private:
    StepTrace& trace_;
    BucketRound& round_;
    protocol::BucketSpan span_;
  };

  /// Of the step, over all buckets.
  PhaseTimes times() const;

  /// The spans of the step. Its number and length are left to the caller.
  protocol::StepTimeline timeline() const;

  /// All bytes since the construction of the fabric. The step is left to the caller.
  protocol::TrafficTotals totals() const;

 private:
  struct OfBucket {
    PhaseTimes times;
    std::vector<protocol::BucketSpan> spans;  ///< as many as a bucket can have are reserved
    std::uint32_t dropped = 0;
  };

  double now() const;
  void add(protocol::BucketSpan span);
  void add_wire(protocol::BucketSpan span, BucketRound& round);
  void share(const protocol::ByteCounts& moved, BucketRound& round, std::uint32_t part);
  void add_tensors(protocol::TrafficTotals& totals) const;

  collectives::Fabric& fabric_;
  const std::span<const NamedTensor> parameters_;
  std::chrono::steady_clock::time_point begin_;
  std::vector<OfBucket> buckets_;
  std::vector<protocol::ByteCounts> counted_;  ///< by lane: what has been attributed
  std::array<protocol::ByteCounts, 1 + compressors::Passes::static_capacity> parts_;
  std::vector<protocol::ByteCounts> tensors_;  ///< by parameter
};

}  // namespace weir::actors
