#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <semaphore>
#include <string>
#include <vector>

#include "actors/metrics.hpp"
#include "actors/role.hpp"
#include "actors/traffic_log.hpp"
#include "collectives/transports/mesh.hpp"
#include "protocol/training.hpp"
#include "training/progress.hpp"

namespace weir::actors {

/// One rank's part in one job, from the assignment to the end: everything that it does on its compute thread, whatever
/// its role.
/// prepare(), join(), train() and close() must be called on that thread, in this order; the other functions on any
/// thread.
class Session final : public training::Progress {
 public:
  /// Functions by which the session hands results to the actor during the training. Called on the compute thread;
  /// they return at once.
  struct Outlets {
    /// Accepts a share of a checkpoint, to be delivered and then reported with share_delivered().
    std::function<void(Segment share, std::uint64_t step)> checkpoint;
    /// Accepts a model to evaluate, from the rank that holds it; the result belongs to the point `at`.
    std::function<void(Segment model, protocol::MetricPoint at)> evaluate;
  };
  /// The number of shares that may be in delivery at the same time; the training waits before it makes another.
  static constexpr std::ptrdiff_t shares_max = 2;

  Session(protocol::Assignment assignment, MakeRole make_role, Outlets outlets);
  ~Session() override;

  /// `checkpoint`: what this rank goes on from, or nothing. Fails with: invalid_argument, not_found, malformed,
  /// conflict, unsupported, io.
  Result<protocol::Prepared> prepare(const Segment& checkpoint);

  /// If it fails, the others are told that this rank has given up. Fails with: unauthenticated, deadline_exceeded,
  /// conflict, peer_lost, exhausted (a device has too little memory), internal, the cause given to abort().
  Result<void> join(const std::vector<protocol::RankEndpoint>& peers);

  /// Trains to the end, then evaluates and saves the final model. If it fails, the training of the others ends too.
  protocol::TrainingEnd train();

  /// Leaves the group. This may take as long as the others need: abort() ends it.
  void close();

  void stop() { stop_wanted_ = true; }
  /// `leaves`: nothing more comes from this rank (Fabric::abort).
  void abort(const Error& cause, bool leaves = false);
  void share_delivered() { shares_.release(); }

  const protocol::Assignment& assignment() const { return assignment_; }
  const protocol::JobSpec& spec() const { return spec_; }  ///< from prepare() on
  Metrics& metrics() { return *metrics_; }                 ///< from prepare() on
  TrafficLog& traffic() { return traffic_; }
  std::uint64_t steps_done() const { return steps_done_; }

  bool holds_model() const { return holds_model_; }  ///< from prepare() on

  bool stop_wanted() const override { return stop_wanted_; }
  bool model_wanted(std::uint64_t steps) const override {
    return checkpoint_due(steps - 1, steps) || evaluation_due(steps - 1, steps);
  }
  Result<void> step_done(const training::Replica& replica, const training::StepRecord& record) override;
  Result<void> keep(std::uint64_t step, Bytes share) override;
  Result<void> evaluate(std::uint64_t step, Bytes model) override;
  Result<void> served(const training::ServedRecord& record) override;
  void granted(std::uint64_t step) override;

 private:
  bool checkpoint_due(std::uint64_t before, std::uint64_t now) const;
  bool evaluation_due(std::uint64_t before, std::uint64_t now) const;
  protocol::TrainingEnd end(protocol::Outcome outcome, std::string cause = {}) const;

  const protocol::Assignment assignment_;
  const MakeRole make_role_;
  const Outlets outlets_;
  protocol::JobSpec spec_;
  std::unique_ptr<Metrics> metrics_;
  TrafficLog traffic_;
  std::counting_semaphore<> shares_{shares_max};
  std::optional<std::uint64_t> saved_step_;
  std::optional<std::uint64_t> evaluated_step_;
  bool holds_model_ = false;
  bool checkpoint_due_ = false;  ///< when the model of the training is there again
  bool evaluation_due_ = false;
  std::atomic<bool> stop_wanted_ = false;
  std::atomic<std::uint64_t> steps_done_ = 0;

  std::mutex mutex_;  ///< guards the pointers below against abort(), which comes from other threads
  std::optional<Error> abort_cause_;
  std::unique_ptr<collectives::Mesh> mesh_;
  std::unique_ptr<collectives::Fabric> group_;
  std::unique_ptr<Role> role_;  ///< uses the group: declared after it
};

}  // namespace weir::actors
