#include "actors/member.hpp"

#include <spdlog/spdlog.h>

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cmath>
#include <utility>

#include "actors/session.hpp"
#include "base/errc.hpp"
#include "protocol/acknowledged.hpp"
#include "runtime/actor_system.hpp"
#include "training/modes/passes.hpp"

namespace weir::actors {
namespace {

using namespace std::chrono_literals;
using net::experimental::awaitable_operators::operator||;

constexpr auto report_interval = 250ms;
constexpr auto step_interval = 10s;  // between two reports of steps that have no points: of long steps, few have some

}  // namespace

Member::Member(runtime::ActorRef<protocol::Coordinator> coordinator, MakeRole make_role)
    : coordinator_(std::move(coordinator)), make_role_(std::move(make_role)) {}
Member::~Member() = default;

void Member::on_start() { deliveries_ = std::make_unique<runtime::TaskGroup>(executor(), name() + " deliveries"); }

net::awaitable<void> Member::on_stop() {
  if (session_) session_->abort({Errc::cancelled, "its actor was stopped"}, /*leaves=*/true);
  co_await deliveries_->stop(clock());
}

net::awaitable<Result<protocol::Prepared>> Member::prepare(protocol::Assignment assignment) {
  if (phase_ != Phase::idle) {
    if (session_->assignment().attempt != assignment.attempt) {
      co_return Error{Errc::conflict, "it has an assignment already"};
    }
    const bool answered = co_await answered_prepare_.wait();
    if (!answered) co_return Error{Errc::cancelled, "its actor was stopped"};
    co_return prepared_;
  }
  phase_ = Phase::preparing;
  const auto hand_over = [this](auto what) { net::post(executor(), std::move(what)); };
  Session::Outlets outlets{.checkpoint =
                               [this, hand_over](Segment share, std::uint64_t step) {
                                 hand_over([this, share = std::move(share), step] {
                                   const auto& a = session_->assignment();
                                   take_share({a.job_id, a.rank, a.attempt, step, share});
                                 });
                               },
                           .evaluate =
                               [this, hand_over](Segment model, protocol::MetricPoint at) {
                                 hand_over([this, model = std::move(model), at = std::move(at)]() mutable {
                                   take_model({std::move(model), std::move(at)});
                                 });
                               }};
  session_ = std::make_shared<Session>(std::move(assignment), make_role_, std::move(outlets));
  prepared_ = co_await prepare_session();
  phase_ = prepared_ ? Phase::prepared : Phase::ended;
  answered_prepare_.set();
  co_return prepared_;
}

net::awaitable<Result<protocol::Prepared>> Member::prepare_session() {
  auto checkpoint = co_await protocol::until_resumed(coordinator_, clock(), session_->assignment());
  if (!checkpoint) co_return checkpoint.error().within("the checkpoint to go on from");
  auto work = [session = session_, checkpoint = std::move(*checkpoint)] { return session->prepare(checkpoint); };
  const auto prepared = co_await compute_.run(std::move(work));
  if (!prepared || !session_->holds_model()) co_return prepared;
  // Before the training, which would be lost if the test examples turned out to be missing after it.
  auto read = [session = session_] { return Evaluator::prepare(session->spec()); };
  auto bench = co_await compute_.run(std::move(read));
  if (!bench) co_return bench.error();
  bench_ = std::move(*bench);
  co_return prepared;
}

net::awaitable<Result<void>> Member::start(std::vector<protocol::RankEndpoint> peers) {
  if (phase_ == Phase::idle || phase_ == Phase::preparing || !prepared_) {
    co_return Error{Errc::conflict, "it is not prepared"};
  }
  if (phase_ != Phase::prepared) {  // a repeat
    const bool answered = co_await answered_start_.wait();
    if (!answered) co_return Error{Errc::cancelled, "its actor was stopped"};
    co_return started_;
  }
  phase_ = Phase::starting;
  started_ = co_await join(std::move(peers));
  answered_start_.set();
  co_return started_;
}

net::awaitable<Result<void>> Member::join(std::vector<protocol::RankEndpoint> peers) {
  auto work = [session = session_, peers = std::move(peers)] { return session->join(peers); };
  auto joined = co_await compute_.run(std::move(work));
  if (!joined) {
    phase_ = Phase::ended;
    co_await leave();
    co_return joined;
  }
  if (session_->holds_model()) {
    auto evaluator = system().spawn<Evaluator>(name() + ".evaluator", std::move(bench_));
    if (!evaluator) co_return evaluator.error();
    evaluator_ = *evaluator;
  }
  phase_ = Phase::training;
  deliveries_->spawn("reports", report());
  tasks().spawn("training", train());
  co_return Result<void>();
}

net::awaitable<Result<void>> Member::stop() {
  if (!session_) co_return Error{Errc::conflict, "it has no assignment"};
  session_->stop();
  co_return Result<void>();
}

net::awaitable<Result<void>> Member::abort(std::string cause) {
  if (session_) session_->abort({Errc::cancelled, std::move(cause)});
  co_return Result<void>();
}

net::awaitable<void> Member::train() {
  auto work = [session = session_]() -> Result<protocol::TrainingEnd> { return session->train(); };
  auto on_cancel = [session = session_] {
    session->abort({Errc::cancelled, "its actor was stopped"}, /*leaves=*/true);
  };
  auto end = (co_await compute_.run(std::move(work), std::move(on_cancel))).value();
  trained_.set();
  if (end.outcome == protocol::Outcome::failed) {
    // Reported at once, so that the head tells the other ranks. Remaining deliveries may follow.
    spdlog::error("rank {} failed after step {}: {}", end.rank, end.step, end.cause);
  } else {
    co_await deliveries_->join();
    if (delivery_failure_) {
      end.outcome = protocol::Outcome::failed;
      end.cause = delivery_failure_->message();
    }
  }
  const auto told = co_await protocol::until_acknowledged<&protocol::Coordinator::ended>(coordinator_, clock(), end);
  if (!told) spdlog::warn("the head did not take the end of rank {}: {}", end.rank, told.error().message());
  phase_ = Phase::ended;
  if (evaluator_) system().stop_actor(evaluator_.address().actor);
  co_await leave();
}

net::awaitable<void> Member::leave() {
  auto work = [session = session_]() -> Result<void> {
    session->close();
    return {};
  };
  co_await compute_.run(std::move(work));
}

net::awaitable<void> Member::report() {
  std::uint64_t sequence = 0;
  std::uint64_t step_told = 0;
  auto told_at = clock().now();
  const auto& assignment = session_->assignment();
  for (bool last = false; !last;) {
    if (!trained_.is_set()) co_await (trained_.wait() || clock().sleep_for(report_interval));
    // An evaluation may still add points after the training.
    last = trained_.is_set() && !evaluating_ && !next_model_;
    auto points = session_->metrics().take();
    auto traffic = session_->traffic().take();
    const bool has_moved = session_->steps_done() > step_told && clock().now() - told_at >= step_interval;
    if (points.empty() && !traffic && !has_moved) {
      if (trained_.is_set() && !last) co_await clock().sleep_for(report_interval);
      continue;
    }
    protocol::Report news{.job_id = assignment.job_id,
                          .rank = assignment.rank,
                          .attempt = assignment.attempt,
                          .sequence = ++sequence,
                          .step = session_->steps_done(),
                          .points = std::move(points),
                          .traffic = std::move(traffic)};
    step_told = news.step;
    told_at = clock().now();
    const auto told =
        co_await protocol::until_acknowledged<&protocol::Coordinator::report>(coordinator_, clock(), std::move(news));
    if (!told) {
      fail_on(told.error().within("the head refused the metrics"));
      co_return;
    }
  }
}

void Member::take_share(protocol::CheckpointShare share) {
  next_shares_.push_back(std::move(share));
  if (!std::exchange(delivering_, true)) deliveries_->spawn("checkpoints", deliver_shares());
}

/// One after the other: the pieces of two at a time would make the older one late.
net::awaitable<void> Member::deliver_shares() {
  while (!next_shares_.empty()) {
    auto share = std::move(next_shares_.front());
    next_shares_.pop_front();
    const auto step = share.step;
    const auto told = co_await protocol::until_kept(coordinator_, clock(), std::move(share));
    session_->share_delivered();
    if (!told) fail_on(told.error().within("checkpoint of step " + std::to_string(step)));
  }
  delivering_ = false;
}

void Member::take_model(Model model) {
  next_model_ = std::move(model);
  if (!std::exchange(evaluating_, true)) deliveries_->spawn("evaluation", evaluate());
}

net::awaitable<void> Member::evaluate() {
  while (next_model_) {
    const auto model = *std::exchange(next_model_, std::nullopt);
    const auto patient = evaluator_.within(protocol::evaluation_limit);
    const auto measured = co_await patient.call<&Evaluation::evaluate>(model.tensors);
    if (!measured) {
      fail_on(measured.error().within("evaluation"));
      next_model_.reset();
      break;
    }
    session_->metrics().add("accuracy", model.at, measured->accuracy);
    session_->metrics().add("test_loss", model.at, measured->loss);
    if (!std::isfinite(measured->loss)) {
      fail_on(training::diverged("the model of step " + std::to_string(model.at.step) +
                                 " has no finite loss on the test examples"));
      next_model_.reset();
      break;
    }
    spdlog::info("step {}: test accuracy {:.4f}, test loss {:.4f}", model.at.step, measured->accuracy, measured->loss);
  }
  evaluating_ = false;
}

void Member::fail_on(const Error& error) {
  if (!delivery_failure_) delivery_failure_ = error;
  session_->abort(error);
}

}  // namespace weir::actors
