#include "actors/state_server.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "base/errc.hpp"
#include "protocol/checkpoint.hpp"
#include "training/job_parts.hpp"
#include "training/state_server/state_server.hpp"
#include "training/tensor_file.hpp"

namespace weir::actors {
namespace {

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Granting final : public Role {
 public:
  static Result<std::unique_ptr<Role>> make(const protocol::JobSpec& spec, const protocol::Assignment& assignment) {
    if (assignment.role != protocol::Role::state_server || assignment.rank + 1 != assignment.members ||
        assignment.rank != assignment.world) {
      return Error{Errc::invalid_argument, "a state server is the only rank behind the workers, and this is rank " +
                                               std::to_string(assignment.rank) + " of " +
                                               std::to_string(assignment.members) + " as a " +
                                               std::string(to_string(assignment.role)) + ", with " +
                                               std::to_string(assignment.world) + " workers"};
    }
    return std::make_unique<Granting>(spec, assignment.world);
  }
  Granting(const protocol::JobSpec& spec, std::uint32_t workers) : spec_(spec), workers_(workers) {}

  Result<void> restore(const Segment& checkpoint) override {
    auto file = protocol::read_safetensors(checkpoint);
    if (!file) return file.error();
    const auto header = protocol::read_checkpoint_header(*file);
    if (!header) return header.error();
    if (auto fits = protocol::check_group(*header, workers_, workers_ + 1); !fits) return fits;
    step_ = header->step;
    return {};
  }

  Result<void> join(collectives::Fabric& group) override {
    group_ = &group;
    return training::expect_same_settings(group, spec_);
  }

  /// Speeds are measured anew after a restart: it may be on other machines. So a share of a checkpoint has nothing but
  /// the step.
  Result<bool> run(training::Progress& progress) override {
    training::StepBudget steps({.workers = workers_});
    training::StateServer server(*group_, steps, monotonic_seconds);
    while (true) {
      const auto left = server.serve();
      if (!left) return left.error();
      const auto before = std::exchange(step_, server.job_step());
      progress.granted(step_);
      const bool due = *left || training::is_due(spec_.checkpoint_every_steps, before, step_);
      if (auto kept = due ? keep(progress) : Result<void>(); !kept) return kept.error();
      if (*left) return server.finished();
    }
  }

  std::uint64_t step() const override { return step_; }
  std::uint64_t steps_total() const override { return 0; }  // the workers know
  std::uint64_t parameters() const override { return 0; }
  bool holds_model() const override { return false; }

 private:
  Result<void> keep(training::Progress& progress) const {
    auto share =
        training::TensorFile().write(protocol::to_metadata({step_, workers_, /*rank=*/workers_, /*servers=*/1}));
    return share ? progress.keep(step_, std::move(*share)) : Result<void>(share.error());
  }

  const protocol::JobSpec spec_;
  const std::uint32_t workers_;
  collectives::Fabric* group_ = nullptr;
  std::uint64_t step_ = 0;
};

}  // namespace

MakeRole state_server_role() { return role_of<Granting>(); }

StateServer::StateServer(runtime::ActorRef<protocol::Coordinator> coordinator)
    : Member(std::move(coordinator), state_server_role()) {}

}  // namespace weir::actors
