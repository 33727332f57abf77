#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "collectives/collective.hpp"
#include "collectives/fabric.hpp"
#include "collectives/topologies/catalog.hpp"
#include "training/exchange/bucket_round.hpp"
#include "training/exchange/codec_thread.hpp"
#include "training/exchange/device_lane.hpp"
#include "training/exchange/lane_order.hpp"
#include "training/exchange/route.hpp"
#include "training/exchange/step.hpp"
#include "training/exchange/step_trace.hpp"

namespace weir::training {

/// The tasks that take the buckets of a step through their rounds: one for each bucket, from the moment when its
/// tensors are complete. One thread encodes and another decodes, so that one bucket may be encoded while others are on
/// the wire and another is decoded. The last bucket has the urgent lane for itself, and its work comes first on both
/// threads; plain buckets of a device, and all that devices sum within hosts, have a thread that waits for their
/// gradients. The others share the other lanes, on each of which all ranks let the buckets pass in the same order.
/// Where devices exchange (DeviceLane), all buckets pass there, the last one at the end. Where those of each host do,
/// buckets pass between them first and last: the sums of all buckets, one after the other, and then the means of all,
/// an order that all ranks of the host know. Everything else happens on the fabric's loop. Of several groups of buckets
/// one is under way at a time.
class BucketSchedule {
 public:
  /// Called when all buckets of a step are through, or one has failed: then the others stay where they are, and the
  /// exchange of all ranks has ended.
  using Ended = std::function<void(const Result<void>& result, const PhaseTimes& times)>;

  /// `choice`: what the job says of its topology, for the parameters of those that take some. `by_hosts`: coded buckets
  /// are summed within hosts first. `devices`: by what all buckets are exchanged or, DeviceLane::within_hosts(), summed
  /// within hosts, and the means copied there; null: by the topologies of their routes. What the buckets do is noted in
  /// `trace`.
  BucketSchedule(collectives::Fabric& fabric, const collectives::TopologyChoice& choice, bool by_hosts,
                 DeviceLane* devices, std::span<const Bucket> buckets, std::vector<BucketRound>& rounds,
                 CodecThreads& codecs, StepTrace& trace, Ended ended);
  /// What is under way is given up. The codec threads must have been stopped before.
  ~BucketSchedule();

  /// The buckets from `first` to `last`, without that one, begin the step: those of one group. `routes`: by bucket.
  void begin(const Step& step, std::span<const Route> routes, std::size_t first, std::size_t last);
  /// The gradients of `bucket` are complete.
  void ready(std::size_t bucket);

 private:
  /// Waits for the gradients of a bucket.
  class Gradients;
  struct Place;
  class Lane;

  collectives::Task<> exchange(std::size_t bucket);
  collectives::Task<> pass_through(std::size_t bucket);
  collectives::Task<> pass_by_hosts(std::size_t bucket);
  collectives::Task<> pass_by_devices(std::size_t bucket);
  collectives::Task<> pass_between_hosts(std::size_t bucket);
  collectives::Task<> sum_between_devices(std::size_t bucket);
  collectives::Task<> copy_between_devices(std::size_t bucket);
  void put_places(std::size_t first, std::size_t last);
  bool urgent(std::size_t bucket) const;
  bool begins_early(std::size_t bucket) const;
  CodecThread& thread_to_begin(std::size_t bucket);
  void end_others(std::size_t bucket, const Error& error);
  collectives::Task<> turn_of(std::size_t bucket, Turns& turns);
  collectives::Task<> turn_of(std::size_t bucket, Turns& turns, std::size_t number);
  Result<void> encode(std::size_t bucket);
  Result<void> decode(std::size_t bucket);
  collectives::Task<> carry(std::size_t bucket, collectives::Collective& collective);
  collectives::Task<> combine(std::size_t bucket, std::uint32_t pass, collectives::Collective& collective,
                              collectives::Subject about);
  collectives::Task<> combine_by_owners(std::size_t bucket, std::uint32_t pass, collectives::Collective& collective,
                                        collectives::Subject about);
  collectives::Task<> bring_to_owners(std::size_t bucket, std::uint32_t pass, collectives::Collective& collective,
                                      collectives::Subject about);
  collectives::Task<> bring_by_hops(std::size_t bucket, std::uint32_t pass, collectives::Collective& collective,
                                    collectives::Subject about);

  collectives::Fabric& fabric_;
  const bool by_hosts_;
  DeviceLane* const within_hosts_;  ///< null: not between devices
  std::vector<BucketRound>& rounds_;
  CodecThreads& codecs_;
  StepTrace& trace_;
  const Ended ended_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<Place> places_;  ///< by bucket
  Turns device_turns_;         ///< between the devices of this host
  Step step_;
  std::vector<Route> routes_;  ///< by bucket
  std::size_t left_ = 0;       ///< buckets that are not through
  bool failed_ = false;
  std::vector<collectives::Task<>> tasks_;  ///< of the step; last: they use all of the above
};

}  // namespace weir::training
