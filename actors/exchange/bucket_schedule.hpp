#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "actors/exchange/bucket_round.hpp"
#include "actors/exchange/codec_thread.hpp"
#include "actors/exchange/step.hpp"
#include "actors/exchange/step_trace.hpp"
#include "actors/exchange/turns.hpp"
#include "base/result.hpp"
#include "collectives/collective.hpp"
#include "collectives/fabric.hpp"
#include "collectives/topologies/catalog.hpp"

namespace weir::actors {

/// The tasks that take the buckets of a step through their rounds: one for each bucket, from the moment when its
/// gradients are complete. Encoding and decoding happen on a codec thread; while one bucket is there, others are on the
/// wire. The last bucket has the urgent lane for itself, the others share the other lanes, on each of which all ranks
/// let the buckets pass in the same order. Everything happens on the fabric's loop.
class BucketSchedule {
 public:
  /// Called when all buckets of a step are through, or one has failed: then the others stay where they are.
  using Ended = std::function<void(const Result<void>& result, const PhaseTimes& times)>;

  /// What the buckets do is noted in `trace`.
  BucketSchedule(collectives::Fabric& fabric, const collectives::TopologyChoice& topology,
                 std::vector<BucketRound>& rounds, CodecThread& codec, StepTrace& trace, Ended ended);
  /// What is under way is given up. The codec thread must have been stopped before.
  ~BucketSchedule();

  void begin(const Step& step);
  /// The gradients of `bucket` are complete.
  void ready(std::size_t bucket);

 private:
  /// Waits for the gradients of a bucket.
  class Gradients;
  struct Place;

  collectives::Task<> exchange(std::size_t bucket);
  collectives::Task<> pass_through(std::size_t bucket);
  collectives::Task<> combine(std::size_t bucket, std::uint32_t pass, collectives::Subject about);
  collectives::Task<> combine_by_owners(std::size_t bucket, std::uint32_t pass, collectives::Subject about);

  collectives::Fabric& fabric_;
  std::vector<BucketRound>& rounds_;
  CodecThread& codec_;
  StepTrace& trace_;
  const Ended ended_;
  std::vector<std::unique_ptr<collectives::Collective>> collectives_;  ///< by lane
  std::vector<Turns> turns_;                                           ///< by lane
  std::vector<Place> places_;                                          ///< by bucket
  Step step_;
  std::size_t left_ = 0;  ///< buckets that are not through
  bool failed_ = false;
  std::vector<collectives::Task<>> tasks_;  ///< by bucket; last: they use all of the above
};

}  // namespace weir::actors
