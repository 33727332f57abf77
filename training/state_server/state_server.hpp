#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.hpp"
#include "collectives/fabric.hpp"
#include "training/state_server/share_rule.hpp"
#include "training/state_server/step_budget.hpp"

namespace weir::training {

/// What a worker is told before it goes on.
struct Grant {
  std::uint64_t steps = 0;  ///< more local steps to make before the next exchange
  double share = 1;         ///< of the entries that its compressor chooses, to be sent in that exchange
};

/// Where a worker learns how many local steps to make.
class StepGrants {
 public:
  virtual ~StepGrants() = default;

  /// `job_step`: the steps of the job when the round began, of which all workers say the same. Blocks. Fails with:
  /// malformed (no answer), and as Communicator does.
  virtual Result<Grant> more(const WorkerState& state, std::uint64_t job_step) = 0;

  /// Asks no more: the training has ended after so many steps of the job, which are all if it is `finished`.
  virtual Result<void> leave(std::uint64_t job_step, bool finished) = 0;

  /// The bytes that this worker's link carries in a second; 0: not known.
  virtual double link_bytes_per_second() const { return 0; }
};

/// Answers the workers of a group, whose ranks are those before this one. Made and used by one thread.
class StateServer {
 public:
  /// `now`: seconds on a clock that never goes back. `fabric` and `steps` must outlive this object.
  StateServer(collectives::Fabric& fabric, StepBudget& steps, std::function<double()> now);

  /// Answers until the workers begin a round in another step of the job than the one before, or have all left. Blocks.
  /// Returns whether they have left. Fails with: malformed (a message that is none, or does not follow the one before;
  /// names the rank, and ends the group), and as Communicator does.
  Result<bool> serve();

  /// The steps of the job, as the workers have told.
  std::uint64_t job_step() const { return job_step_; }
  /// Whether those are all, as the workers have said who left.
  bool finished() const { return finished_; }

  /// The lane of the talk with the state server, which is used for nothing else: the last one of a group.
  static std::uint32_t lane_of(const collectives::Fabric& fabric) { return fabric.lanes() - 1; }

 private:
  struct Arrival;

  collectives::Task<> answer_some();
  collectives::Task<> answer_next();
  collectives::Task<> receive_question(Arrival& arrival);
  collectives::Task<> take_probe(const Arrival& question);
  Result<void> note_step(const Arrival& question);

  collectives::Fabric& fabric_;
  StepBudget& steps_;
  ShareRule shares_;
  const std::function<double()> now_;
  std::vector<std::uint64_t> questions_;  ///< by rank: asked so far
  std::uint64_t job_step_ = 0;
  std::uint64_t round_ = 0;
  std::uint32_t left_ = 0;       ///< workers that ask no more
  bool step_is_new_ = false;     ///< since serve() was called
  bool told_of_a_step_ = false;  ///< by anyone
  bool finished_ = true;
};

/// A worker's end.
class StateClient final : public StepGrants {
 public:
  /// `server`: the rank of the state server. `fabric` must outlive this object.
  StateClient(collectives::Fabric& fabric, std::uint32_t server)
      : fabric_(fabric), lane_(StateServer::lane_of(fabric)), server_(server) {}

  /// Measures this worker's link to the state server, with messages of growing size, until one takes so much longer
  /// than the one before that its length tells, or would be longer than `bytes_max`. The state server attends to one
  /// worker at a time, and a job has to start in time: that takes about a second where the link carries 50 kbit in
  /// one, and no more where it carries more. `limit`: bytes per second that the link cannot exceed; 0: not known. One
  /// of less than 64 KiB is taken for what the link carries. Blocks. Fails as more().
  Result<void> measure_link(std::uint64_t bytes_max, double limit);

  Result<Grant> more(const WorkerState& state, std::uint64_t job_step) override;
  Result<void> leave(std::uint64_t job_step, bool finished) override;
  double link_bytes_per_second() const override { return link_bytes_per_second_; }

 private:
  collectives::Fabric& fabric_;
  const std::uint32_t lane_;
  const std::uint32_t server_;
  std::uint64_t asked_ = 0;
  double link_bytes_per_second_ = 0;
};

}  // namespace weir::training
