#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "actors/datasets/dataset.hpp"
#include "actors/datasets/sampler.hpp"
#include "actors/exchange.hpp"
#include "actors/models/model.hpp"
#include "actors/optimizers/optimizer.hpp"
#include "actors/schedules/schedule.hpp"
#include "base/bytes.hpp"
#include "base/result.hpp"
#include "protocol/job_spec.hpp"

namespace weir::actors {

/// What one rank trains: its copy of the model and all that goes with it. Made from the job spec, the same on every
/// rank but for the shard. Used by one thread.
///
/// Parameters stay equal on all ranks. The model's buffers (running statistics) do not: nothing exchanges them, each
/// rank keeps those of the batches it saw. Rank 0's are the model's: they are evaluated, and stand beside the
/// parameters in a checkpoint; those of the other ranks are kept apart in it, so that a job that goes on has the same
/// bits.
class Replica {
 public:
  /// Reads the training data, so it takes a while.
  /// Fails with: not_found (dataset file), malformed (dataset file), invalid_argument (the spec asks for what does not
  /// go together), io.
  static Result<std::unique_ptr<Replica>> make(const protocol::JobSpec& spec, std::uint32_t rank, std::uint32_t world);

  /// Goes on from a checkpoint of the same job with as many ranks; before join().
  /// Fails with: malformed, unsupported, conflict (another model, optimizer, memory or number of ranks).
  Result<void> restore(const Segment& checkpoint);

  /// Takes its place in the group and makes sure that all ranks start from the same parameters. Blocks.
  /// `group` is used until this object is gone. Fails with: conflict, and with what the group fails with.
  Result<void> join(collectives::Communicator& group);

  /// This rank's share of a checkpoint. Between two steps.
  Result<Bytes> save() const;
  /// Model alone, in the same form: what an evaluator takes.
  Result<Bytes> save_model() const;

  std::uint64_t parameter_count() const;
  const compressors::Compression& compression() const { return exchange ? exchange->compression() : compression_; }
  double epoch() const { return static_cast<double>(step) / static_cast<double>(sampler.steps_per_epoch()); }
  /// What epoch() is at the end.
  double epochs_total() const {
    return static_cast<double>(steps_total) / static_cast<double>(sampler.steps_per_epoch());
  }

  const protocol::JobSpec spec;
  const std::uint32_t rank;
  const std::uint32_t world;
  std::unique_ptr<Examples> examples;
  std::unique_ptr<Model> model;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Schedule> schedule;
  Sampler sampler;
  double learning_rate = 0;  ///< before the schedule
  std::uint64_t steps_total = 0;
  std::uint64_t step = 0;              ///< done so far
  std::unique_ptr<Exchange> exchange;  ///< from join() on

 private:
  Replica(const protocol::JobSpec& job, std::uint32_t own_rank, std::uint32_t ranks, Sampler own_sampler)
      : spec(job), rank(own_rank), world(ranks), sampler(std::move(own_sampler)) {}
  compressors::Compression compression_;  ///< until the exchange takes it over
};

}  // namespace weir::actors
