#pragma once

#include <ATen/core/Tensor.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "collectives/fabric.hpp"
#include "collectives/topologies/catalog.hpp"
#include "compressors/catalog.hpp"
#include "training/exchange/aggregation.hpp"
#include "training/exchange/auto_plan.hpp"
#include "training/exchange/bucket_round.hpp"
#include "training/exchange/bucket_schedule.hpp"
#include "training/exchange/buckets.hpp"
#include "training/exchange/codec_thread.hpp"
#include "training/exchange/device_lane.hpp"
#include "training/exchange/host_copies.hpp"
#include "training/exchange/route.hpp"
#include "training/exchange/step.hpp"
#include "training/exchange/step_trace.hpp"

namespace weir::training {

/// Averages the values of tensors over all ranks, or aggregates them otherwise, step by step. What the values are, and
/// when they are there, is up to who gives them: a GradientTrigger gives gradients while the backward pass runs. When
/// all tensors of a bucket have been given, the bucket has a task of its own on the loop of the fabric, which takes it
/// through its round (BucketRound): encoding and decoding on codec threads, in between the messages to the other ranks.
/// While one bucket is on the wire, the next is encoded and the last one decoded. The buckets of a lane go onto the
/// wire in the same order on all ranks.
///
///     exchange.begin({step, epoch, learning_rate, vote});
///     exchange.give(i, value);          // for each tensor, in any order
///     agreed = exchange.finish();       // then exchange.means() are the means over all ranks, equal everywhere
///
/// The tensors may be in several groups. Then a step is that of one group: the others have no part in it.
///
/// A sum, the smallest or the largest of running statistics, as of batch norm, would be those of nothing (a variance
/// may come out negative). Of statistics there is always the mean, weighted where that of the others is.
///
/// Owned by the trainer; used by its compute thread. After the first failure every step fails. What fails on one rank
/// ends the exchange of all: the others fail with an error that names the rank and the bucket.
class Exchange {
 public:
  struct Options {
    std::string_view values = "gradient";  ///< what the values are, in errors
    Aggregation aggregation = Aggregation::mean;
    std::uint64_t seed = 0;
    compressors::TrainingCourse course = {};
    BucketSizes bucket_sizes;                         ///< AutoPlan begins with these and may change them
    std::vector<std::uint32_t> groups = {};           ///< by tensor, from 0 without gaps; empty: all in one
    std::size_t statistics = 0;                       ///< so many of the tensors, the last, are statistics
    bool together = false;                            ///< values are given when all have been computed
    collectives::TopologyChoice topology = {};        ///< AutoPlan::name: left to the ranks
    AutoPlan::MakeCompression make_compression = {};  ///< for AutoPlan, as the next one
    AutoPlan::MeasureLinks measure_links = training::measure_links;
  };

  /// Where a step's exchange spent its time, in seconds, summed over its buckets, which pass side by side; `wait` is
  /// how long the compute thread waited for them after the backward pass.
  struct Times {
    double encode = 0;
    double exchange = 0;
    double decode = 0;
    double wait = 0;
  };

  /// The result of one step.
  struct Agreed {
    float votes = 0;  ///< the sum of all ranks' votes
    Times times;
  };

  /// `tensors`: names, shapes and the device that all are on. They are usually given from the last to the first, which
  /// decides about buckets. `fabric` must outlive this object. `devices`: of that fabric, for a topology on devices or,
  /// within hosts, for one by hosts; null: the topology has none, and what is summed within hosts is in their memory.
  Exchange(std::vector<NamedTensor> tensors, compressors::Compression compression, collectives::Fabric& fabric,
           const Options& options, std::unique_ptr<DeviceLane> devices = nullptr);
  /// An exchange in progress must be ended first, by Fabric::abort.
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Begins a step of the tensors of a group, of which none has been given.
  void begin(const Step& step, std::uint32_t group = 0);

  /// The value of a tensor in this step: float32, of the tensor's shape, where the tensor is. It must not change until
  /// finish() returns. Called at most once for each tensor, and for those of the group only.
  void give(std::uint32_t tensor, at::Tensor value);

  /// Waits until all buckets have been exchanged. Tensors that were not given count as zero. Fails with what
  /// Communicator, Compressor and Memory fail with.
  Result<Agreed> finish();

  /// The mean of each tensor of the group, where the tensor is, valid until the next begin(). Meanwhile it may be used
  /// up: entries of sparse ones set to zero, and their positions forgotten.
  std::span<Mean> means() { return copies_ ? copies_->means() : means_; }

  const compressors::Compression& compression() const { return compression_; }

  /// What the exchange itself keeps between steps, besides compressor and memory: the residuals of this rank as an
  /// owner, regions and thresholds, and where they belong. The tensors alias the live ones or are made for this.
  std::vector<NamedTensor> save() const;
  /// Before the first step, on all ranks together, with the states of the memories restored before. The state of an
  /// exchange over another topology or in other buckets is handed over to this one (handover.hpp). Fails with:
  /// malformed (not a state from save() of an exchange of these parameters), and as hand_over().
  Result<void> restore(std::span<const NamedTensor> state);

  /// The buckets in the order in which they are usually complete.
  std::span<const Bucket> buckets() const { return buckets_; }

  /// What the step did and what all steps have moved. To be read between finish() and the next begin().
  const StepTrace& trace() const { return *trace_; }

  /// How the buckets travel, if that is new since this was last asked. To be called between two steps.
  std::optional<protocol::ExchangePlan> new_plan();

  /// The bytes that each rank would send per step without compression: those of a ring all-reduce, without headers.
  std::uint64_t dense_bytes_per_step() const;

 private:
  class Call;

  bool is_statistic(std::size_t tensor) const { return tensor + options_.statistics >= tensors_.size(); }
  RoundSetting setting_of(bool some_coded);
  std::vector<Route> fixed_routes() const;
  std::vector<Bucket> planned(const BucketSizes& sizes) const;
  bool may_change_layout() const;
  std::size_t offer(const BucketSizes& sizes);
  void lay_out(std::size_t layout);
  Result<void> plan(const Step& step);
  Result<void> weigh(const Step& step);
  void sum_up();
  void put_means();
  void hand_over(std::size_t bucket);
  void give_to_copies(std::size_t bucket);

  const std::vector<NamedTensor> tensors_;
  compressors::Compression compression_;
  collectives::Fabric& fabric_;
  const Options options_;
  std::vector<at::Tensor> values_;      ///< by tensor: of this step
  std::vector<Mean> means_;             ///< by tensor, in the host's memory but for those that are made on the device
  std::unique_ptr<HostCopies> copies_;  ///< if the tensors are on a device
  GatheredMean gathered_mean_;
  std::unique_ptr<RoundSetting> setting_;
  std::unique_ptr<AutoPlan> auto_plan_;       ///< if the routes are left to the ranks
  std::vector<std::vector<Bucket>> layouts_;  ///< all different; of which AutoPlan may choose
  std::vector<std::uint64_t> bucket_bytes_;   ///< by layout
  std::size_t layout_ = 0;                    ///< the one in use
  std::vector<Bucket> buckets_;
  std::vector<Route> routes_;             ///< by bucket
  std::vector<std::uint32_t> bucket_of_;  ///< by tensor
  std::vector<BucketRound> rounds_;       ///< by bucket
  std::unique_ptr<DeviceLane> devices_;   ///< uses what the rounds have
  std::unique_ptr<StepTrace> trace_;
  std::unique_ptr<CodecThreads> codecs_;
  std::unique_ptr<BucketSchedule> schedule_;  ///< lives on the loop's thread

  // Used by the compute thread.
  std::vector<std::size_t> missing_;  ///< by bucket: number of tensors that were not given
  std::vector<bool> handed_over_;     ///< by bucket
  std::size_t first_ = 0;             ///< of the buckets of the step
  std::size_t last_ = 0;              ///< behind them
  bool begun_ = false;                ///< there was a step
  bool giving_ = false;               ///< between a begin() that has not failed and finish()
  bool plan_is_new_ = true;
  Step step_;
  float weight_ = 1;                          ///< of this rank's values in this step
  std::unique_ptr<Call> begin_;               ///< of the schedule
  std::vector<std::unique_ptr<Call>> calls_;  ///< by bucket: that it is ready

  std::mutex mutex_;
  std::condition_variable changed_;
  bool under_way_ = false;
  Agreed agreed_;
  std::optional<Error> failure_;
};

}  // namespace weir::training
