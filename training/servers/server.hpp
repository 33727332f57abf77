#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "collectives/fabric.hpp"
#include "compressors/catalog.hpp"
#include "protocol/job_spec.hpp"
#include "training/length.hpp"
#include "training/models/model.hpp"
#include "training/modes/mode.hpp"
#include "training/progress.hpp"
#include "training/schedules/schedule.hpp"
#include "training/servers/push_traffic.hpp"
#include "training/servers/shard.hpp"

namespace weir::training::servers {

/// Which server of a job: its rank comes after those of the workers.
struct Place {
  std::uint32_t index = 0;
  std::uint32_t workers = 1;
  std::uint32_t servers = 1;

  std::uint32_t rank() const { return workers + index; }
  std::uint32_t ranks() const { return workers + servers; }
  bool first() const { return index == 0; }
};

/// What a server has counted.
struct Counts {
  std::uint64_t applied = 0;               ///< pushes
  std::uint64_t version = 0;               ///< versions of the model that were made of them
  std::vector<std::uint64_t> clocks;       ///< by worker: its pushes
  std::vector<std::uint64_t> answered_at;  ///< by worker: the version that its last answer was about
};

/// The state of a parameter server: it owns some of the model's tensors, to which it applies what the workers push, and
/// sends them what has changed. Made from the job spec, beside the workers' replicas; used by one thread. The first
/// server decides for all when the training ends and when it is saved, and holds the model that is evaluated.
class Server {
 public:
  /// Reads the training data if only the files tell how many examples there are. Fails as Replica::make().
  static Result<std::unique_ptr<Server>> make(const protocol::JobSpec& spec, const Place& place);
  ~Server();

  /// As Replica::restore().
  Result<void> restore(const Segment& checkpoint);

  /// As Replica::join(); the workers join at the same time.
  Result<void> join(collectives::Fabric& fabric);

  /// Serves until all steps are done or a stop was asked for. Blocks. Returns whether all steps are done. Fails with:
  /// malformed (what another rank has sent; names it), and with what the group fails with. Then all ranks fail.
  Result<bool> serve(Progress& progress);

  /// This server's share of a checkpoint, to be taken while no push is on its way.
  Result<Bytes> save() const;
  /// The whole model, as far as this server knows the parts of others.
  Result<Bytes> save_model() const;

  std::uint64_t step() const { return counts.applied / pushes_per_step; }
  /// The learning rate of a push that makes a whole step, at a step of the job.
  double rate_at(std::uint64_t step) const;
  std::uint64_t parameter_count() const;

  const protocol::JobSpec spec;
  const Place place;
  TrainingLength length;
  std::uint32_t pushes_per_step = 1;
  std::unique_ptr<Mode> mode;
  std::unique_ptr<Model> model;
  std::vector<std::vector<std::uint32_t>> parts;  ///< by server: its tensors
  std::unique_ptr<Shard> shard;
  Counts counts;
  std::unique_ptr<PushTraffic> traffic;  ///< from join() on

 private:
  Server(const protocol::JobSpec& job, const Place& own) : spec(job), place(own) {}

  compressors::Compression compression_;
  std::unique_ptr<Schedule> schedule_;
  double learning_rate_ = 0;
  collectives::Fabric* fabric_ = nullptr;  ///< from join() on
};

}  // namespace weir::training::servers
