#include "actors/trainer.hpp"

#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <utility>

#include "base/errc.hpp"
#include "compressors/device/device.hpp"
#include "training/device.hpp"
#include "training/modes/mode.hpp"
#include "training/random_state.hpp"
#include "training/replica.hpp"

namespace weir::actors {
namespace {

class Worker final : public Role {
 public:
  static Result<std::unique_ptr<Role>> make(const protocol::JobSpec& spec, const protocol::Assignment& assignment) {
    if (assignment.role != protocol::Role::worker) {
      return Error{Errc::invalid_argument,
                   "a trainer does not take the role " + std::string(to_string(assignment.role))};
    }
    const auto device = training::device_for(spec.resources.per_worker);
    if (!device) return device.error();
    if (!device->is_cpu()) {
      spdlog::info("rank {} computes on {}", assignment.rank, device->str());
      if (const auto runs = compressors::device::check_kernels(); !runs) {
        spdlog::warn("rank {} compresses on processors: {}", assignment.rank, runs.error().context);
      }
    }
    if (spec.training.precision == protocol::Precision::bfloat16) {
      spdlog::info("rank {} runs forward passes in bfloat16", assignment.rank);
    }
    auto replica = training::Replica::make(spec, assignment.rank, assignment.world,
                                           assignment.members - assignment.world, *device);
    if (!replica) return replica.error();
    training::seed_random_state(spec.training.seed, assignment.rank);
    return std::make_unique<Worker>(std::move(*replica));
  }
  explicit Worker(std::unique_ptr<training::Replica> replica) : replica_(std::move(replica)) {}

  Result<void> restore(const Segment& checkpoint) override { return replica_->restore(checkpoint); }
  Result<void> join(collectives::Fabric& group) override {
    auto joined = replica_->join(group);
    if (joined && !replica_->why_not_nccl.empty()) {
      spdlog::info("rank {}: gradients are summed within hosts in the hosts' memory, and not by NCCL: {}",
                   replica_->rank, replica_->why_not_nccl);
    }
    return joined;
  }
  Result<bool> run(training::Progress& progress) override {
    const auto finished = replica_->mode->train(*replica_, progress);
    if (!finished || replica_->served()) return finished;
    auto share = replica_->save();
    if (!share) return share.error();
    if (auto kept = progress.keep(replica_->step, std::move(*share)); !kept) return kept.error();
    if (!holds_model()) return finished;
    auto model = replica_->save_model();
    if (!model) return model.error();
    if (auto given = progress.evaluate(replica_->step, std::move(*model)); !given) return given.error();
    return finished;
  }

  std::uint64_t step() const override { return replica_->step; }
  std::uint64_t steps_total() const override { return replica_->length.steps_total; }
  std::uint64_t parameters() const override { return replica_->parameter_count(); }
  bool holds_model() const override { return replica_->rank == 0 && !replica_->served(); }
  training::WarmupLength warmup() const override { return replica_->warmup(); }
  const training::TrafficAccount* traffic() const override { return replica_->mode->traffic(*replica_); }

 private:
  const std::unique_ptr<training::Replica> replica_;
};

}  // namespace

MakeRole trainer_role() { return role_of<Worker>(); }

Trainer::Trainer(runtime::ActorRef<protocol::Coordinator> coordinator)
    : Member(std::move(coordinator), trainer_role()) {}

}  // namespace weir::actors
