#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "protocol/job_spec.hpp"
#include "training/datasets/dataset.hpp"
#include "training/datasets/sampler.hpp"
#include "training/exchange/exchange.hpp"
#include "training/length.hpp"
#include "training/models/model.hpp"
#include "training/optimizers/optimizer.hpp"
#include "training/schedules/schedule.hpp"

namespace weir::training {

class Mode;
enum class Exchanged : std::uint8_t;

/// The state that one rank trains: its copy of the model and everything that belongs to it. Made from the job spec,
/// equal on all ranks except for the shard. Used by one thread.
///
/// The model of the training is what is evaluated and saved. Its parameters are those that the ranks train, which are
/// equal on all of them whenever they have exchanged, unless the mode says otherwise (ModeState::model). The model's
/// buffers (running statistics) are exchanged only where compression applies to models, and then only those of
/// floating-point numbers: otherwise each rank keeps those of its own batches. Rank 0's count as the model's then, or,
/// where ranks mix models or push to servers, the mean of all ranks'. Those of the ranks that the model does not have
/// are saved separately in a checkpoint, so that a resumed job has the same bits; likewise the optimizers of the other
/// ranks, where each has its own. Where servers hold the model of the training (served()), this
/// is a worker's copy of it.
class Replica {
 public:
  /// Reads the training data, which takes a while. Fails with: not_found (dataset file), malformed (dataset file),
  /// invalid_argument (the spec combines things that do not fit), io.
  /// `world`: the workers; the `others` that the mode needs beside them have the ranks behind theirs. `device`: where
  /// the model is and the rank computes.
  static Result<std::unique_ptr<Replica>> make(const protocol::JobSpec& spec, std::uint32_t rank, std::uint32_t world,
                                               std::uint32_t others = 0, at::Device device = at::kCPU);
  ~Replica();

  /// Resumes from a checkpoint of the same job with the same number of ranks. Must be called before join(). Fails with:
  /// malformed (also the state of another optimizer, memory or compressor), unsupported, conflict (another model or
  /// number of ranks).
  Result<void> restore(const Segment& checkpoint);

  /// Joins the group, and checks that all ranks start with the same parameters. Blocks. `group` must outlive this
  /// object. Fails with: conflict (parameters differ), and with what the group fails with.
  Result<void> join(collectives::Fabric& fabric);
  /// Makes the exchange of all parameters between the workers, with the state that restore() has found. For the mode's
  /// join().
  Result<void> make_exchange();

  /// This rank's share of a checkpoint. Must be called between two steps.
  Result<Bytes> save() const;
  /// The model alone, in the same form, for an evaluator.
  Result<Bytes> save_model() const;

  std::uint64_t parameter_count() const;
  std::uint32_t members() const { return world + others; }  ///< all ranks of the group
  /// Whether servers hold the model of the training and its optimizer.
  bool served() const;
  /// The ranks that exchange with each other: the workers or, with servers, all. From join() on.
  collectives::Fabric& workers() { return *workers_; }
  const compressors::Compression& compression() const { return exchange ? exchange->compression() : compression_; }
  double epoch() const { return length.epoch_at(step); }
  Exchanged exchanges() const;
  /// Whether the optimizers of the ranks differ in their state. Otherwise all apply the same means.
  bool own_optimizers() const;
  /// The buffers that the ranks exchange.
  std::vector<NamedTensor> exchanged_buffers() const;
  /// The tensors of the model that the ranks exchange, or whose gradients they exchange.
  std::vector<NamedTensor> exchanged_tensors() const;
  /// Of the compressor.
  WarmupLength warmup() const;
  compressors::TrainingCourse course() const {
    return {.epochs = length.epochs_total(), .rate_falls = schedule->falls()};
  }

  const protocol::JobSpec spec;
  const std::uint32_t rank;
  const std::uint32_t world;   ///< the workers
  const std::uint32_t others;  ///< ranks behind the workers', with another role
  const at::Device device;     ///< of the model
  std::unique_ptr<Examples> examples;
  std::unique_ptr<Model> model;
  std::unique_ptr<Mode> mode;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Schedule> schedule;
  Sampler sampler;
  double learning_rate = 0;  ///< before the factor of the schedule
  TrainingLength length;
  std::uint64_t step = 0;              ///< steps done so far; with servers, those of the job
  std::unique_ptr<Exchange> exchange;  ///< set by join(), unless the mode has something else in its place
  /// From join() on: why what is summed within hosts goes through their memory although workers have GPUs. A sentence,
  /// the same on all ranks, or nothing.
  std::string why_not_nccl;

 private:
  Replica(const protocol::JobSpec& job, std::uint32_t own_rank, std::uint32_t workers, std::uint32_t others_behind,
          at::Device of_model, Sampler own_sampler);
  Result<std::unique_ptr<DeviceLane>> join_devices();
  std::vector<NamedTensor> model_of_training() const;
  /// Whether this rank's buffers differ from those of the model of the training.
  bool own_buffers() const;

  compressors::Compression compression_;                    ///< moved into the exchange by join()
  std::optional<std::vector<NamedTensor>> exchange_state_;  ///< restored, and for the exchange that join() makes
  std::optional<std::uint64_t> common_hash_;                ///< of the restored model of the training
  std::unique_ptr<collectives::Fabric> part_;               ///< the workers, if they exchange without the others
  collectives::Fabric* workers_ = nullptr;                  ///< from join() on
};

}  // namespace weir::training
