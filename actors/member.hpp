#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/compute_thread.hpp"
#include "actors/evaluator.hpp"
#include "actors/role.hpp"
#include "protocol/training.hpp"
#include "runtime/actor.hpp"
#include "runtime/event.hpp"
#include "runtime/task_group.hpp"

namespace weir::actors {

class Session;

/// One rank of a training job: accepts the assignment, does what its role asks for on a thread of its own, and reports
/// metrics, checkpoints and the end to the head's Coordinator. Each serves one job. The rank that holds the model also
/// starts an Evaluator. Derived classes are the roles.
class Member : public runtime::Actor<protocol::Training> {
 public:
  ~Member() override;

  void on_start() override;
  net::awaitable<void> on_stop() override;

  net::awaitable<Result<protocol::Prepared>> prepare(protocol::Assignment assignment) override;
  net::awaitable<Result<void>> start(std::vector<protocol::RankEndpoint> peers) override;
  net::awaitable<Result<void>> stop() override;
  net::awaitable<Result<void>> abort(std::string cause) override;

 protected:
  Member(runtime::ActorRef<protocol::Coordinator> coordinator, MakeRole make_role);

 private:
  enum class Phase { idle, preparing, prepared, starting, training, ended };
  struct Model {
    Segment tensors;
    protocol::MetricPoint at;
  };

  net::awaitable<Result<protocol::Prepared>> prepare_session();
  net::awaitable<Result<void>> join(std::vector<protocol::RankEndpoint> peers);
  net::awaitable<void> train();
  net::awaitable<void> leave();
  net::awaitable<void> report();
  net::awaitable<void> deliver_shares();
  net::awaitable<void> evaluate();
  void take_share(protocol::CheckpointShare share);
  void take_model(Model model);
  void fail_on(const Error& error);

  runtime::ActorRef<protocol::Coordinator> coordinator_;
  const MakeRole make_role_;
  std::shared_ptr<const Evaluator::Bench> bench_;  ///< if this rank holds the model: for the evaluator
  runtime::ActorRef<Evaluation> evaluator_;
  Phase phase_ = Phase::idle;
  std::shared_ptr<Session> session_;
  runtime::Event answered_prepare_;  ///< what prepare() answers is known
  Result<protocol::Prepared> prepared_ = protocol::Prepared();
  runtime::Event answered_start_;
  Result<void> started_;
  std::deque<protocol::CheckpointShare> next_shares_;  ///< that wait to be delivered, one after the other
  bool delivering_ = false;
  std::optional<Model> next_model_;  ///< the newest model that waits for the evaluator
  bool evaluating_ = false;
  std::optional<Error> delivery_failure_;
  runtime::Event trained_;                          ///< the training has ended
  std::unique_ptr<runtime::TaskGroup> deliveries_;  ///< reports, shares, evaluations; a successful end waits for them
  ComputeThread compute_;                           ///< last: its work uses the session
};

}  // namespace weir::actors
