#include "training/state_server/state_server.hpp"

#include <cstring>
#include <string>
#include <utility>

#include "base/errc.hpp"
#include "collectives/receivers.hpp"
#include "training/state_server/messages.hpp"

namespace weir::training {
namespace {

using collectives::Communicator;
using collectives::Receive;
using collectives::Send;
using collectives::Task;

/// Looks at nothing.
class Discard final : public collectives::Receiver {
 public:
  explicit Discard(std::uint64_t bytes) : bytes_(bytes) {}
  Result<void> begin(std::uint64_t message_bytes) override { return collectives::expect_length(message_bytes, bytes_); }
  std::span<std::byte> place(std::uint64_t, std::size_t) override { return {}; }

 private:
  const std::uint64_t bytes_;
};

Task<> send_answer(Communicator& group, std::uint32_t worker, std::uint64_t number, const Answer& answer) {
  AnswerBytes bytes;
  std::memcpy(bytes.data(), &answer, sizeof answer);
  Send sent(group, worker, {.version = number}, bytes);
  co_return co_await sent;
}

}  // namespace

struct StateServer::Arrival {
  std::uint32_t worker = 0;
  std::uint64_t number = 0;
  training::Question question;

  Error refuse(const std::string& what) const {
    return {Errc::malformed, "worker " + std::to_string(worker) + " tells the state server of " + what};
  }
};

StateServer::StateServer(collectives::Fabric& fabric, StepBudget& steps, std::function<double()> now)
    : fabric_(fabric), steps_(steps), shares_(fabric.rank()), now_(std::move(now)), questions_(fabric.size()) {}

Task<> StateServer::receive_question(Arrival& arrival) {
  QuestionBytes bytes;
  collectives::Filler into(bytes);
  Receive received(fabric_.lane(lane_of(fabric_)), into);
  if (auto arrived = co_await received; !arrived) co_return arrived.error();
  arrival.worker = received.from();
  arrival.number = questions_.at(arrival.worker)++;
  if (received.about().version != arrival.number) {
    co_return Error{Errc::malformed, "worker " + std::to_string(arrival.worker) + " asks the state server question " +
                                         std::to_string(received.about().version) + " where " +
                                         std::to_string(arrival.number) + " is due"};
  }
  std::memcpy(&arrival.question, bytes.data(), bytes.size());
  co_return Result<void>();
}

/// The bytes of a probe come when this rank awaits them, and nothing else: what the worker measures is its link.
Task<> StateServer::take_probe(const Arrival& probe) {
  if (probe.question.bytes > probe_bytes_max) {
    co_return probe.refuse(std::to_string(probe.question.bytes) + " bytes to measure its link by, where at most " +
                           std::to_string(probe_bytes_max) + " are accepted");
  }
  Communicator& group = fabric_.lane(lane_of(fabric_));
  Discard into(probe.question.bytes);
  Receive body(group, probe.worker, {.version = probe.number, .part = 1}, into);
  const Answer yes;
  if (auto sent = co_await send_answer(group, probe.worker, probe.number, yes); !sent) co_return sent.error();
  if (auto arrived = co_await body; !arrived) co_return arrived.error();
  co_return co_await send_answer(group, probe.worker, probe.number, yes);
}

/// The workers agree on the steps of the job in each exchange.
Result<void> StateServer::note_step(const Arrival& from) {
  const auto& question = from.question;
  const bool leaves = question.asks == static_cast<std::uint64_t>(Asks::nothing);
  const bool begins = !told_of_a_step_ || (leaves ? left_ == 0 : question.round > round_);
  const bool fits = begins ? !told_of_a_step_ || question.job_step >= job_step_ : question.job_step == job_step_;
  if (!fits) {
    return from.refuse("step " + std::to_string(question.job_step) + " of the job where others are in step " +
                       std::to_string(job_step_));
  }
  if (!begins) return {};
  step_is_new_ = step_is_new_ || !told_of_a_step_ || question.job_step != job_step_;
  told_of_a_step_ = true;
  job_step_ = question.job_step;
  if (!leaves) round_ = question.round;
  return {};
}

Task<> StateServer::answer_next() {
  Arrival from;
  if (auto arrived = co_await receive_question(from); !arrived) co_return arrived.error();
  const auto& question = from.question;
  if (question.asks == static_cast<std::uint64_t>(Asks::probe)) co_return co_await take_probe(from);
  if (auto noted = note_step(from); !noted) co_return noted.error();
  if (question.asks == static_cast<std::uint64_t>(Asks::nothing)) {
    ++left_;
    finished_ = finished_ && question.left == 0;
    co_return Result<void>();
  }
  if (question.asks != static_cast<std::uint64_t>(Asks::steps)) co_return from.refuse("what is no question");
  if (left_ > 0) co_return from.refuse("a round, and others have left");
  const WorkerState state{.round = question.round,
                          .steps = question.steps,
                          .step_seconds = question.step_seconds,
                          .encode_seconds = question.encode_seconds,
                          .link_seconds = question.link_seconds,
                          .share = question.share,
                          .left = question.left};
  const auto more = steps_.more(from.worker, state, now_());
  if (!more) co_return more.error();
  if (state.steps == 0) shares_.learn(from.worker, state, steps_.slowest_step());
  const Answer answer{.steps = *more, .share = shares_.share(from.worker)};
  co_return co_await send_answer(fabric_.lane(lane_of(fabric_)), from.worker, from.number, answer);
}

Task<> StateServer::answer_some() {
  while (!step_is_new_ && left_ < fabric_.rank()) {
    auto answered = co_await answer_next();
    if (!answered) {
      fabric_.lane(lane_of(fabric_)).abort(answered.error(), collectives::Blame::of_giving_up(fabric_.rank()));
      co_return answered.error();
    }
  }
  co_return Result<void>();
}

Result<bool> StateServer::serve() {
  step_is_new_ = false;
  auto answered = fabric_.thread().run([this] { return answer_some(); });
  if (!answered) return answered.error();
  return left_ == fabric_.rank();
}

}  // namespace weir::training
