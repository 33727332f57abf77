#include "training/state_server/state_server.hpp"

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "base/errc.hpp"
#include "collectives/receivers.hpp"

namespace weir::training {
namespace {

using collectives::Communicator;
using collectives::Receive;
using collectives::Send;
using collectives::Subject;
using collectives::Task;

/// What a worker sends. Its messages are numbered from 0 in the version of their subject, as are the answers, each of
/// which is a number of steps: 8 bytes, little-endian.
struct Question {
  std::uint64_t leaves = 0;  ///< 1: there are no more questions, and no answer to this one
  std::uint64_t round = 0;
  std::uint64_t steps = 0;
  double step_seconds = 0;
  double exchange_seconds = 0;
};
static_assert(sizeof(Question) == 40 && std::is_trivially_copyable_v<Question>);

using QuestionBytes = std::array<std::byte, sizeof(Question)>;
using AnswerBytes = std::array<std::byte, sizeof(std::uint64_t)>;

/// Answers the next question. Returns whether the worker leaves.
Task<bool> answer_next(Communicator& group, StepBudget& steps, const std::function<double()>& now,
                       std::vector<std::uint64_t>& questions) {
  QuestionBytes bytes;
  collectives::Filler into(bytes);
  Receive arrival(group, into);
  if (auto arrived = co_await arrival; !arrived) co_return arrived.error();
  const std::uint32_t worker = arrival.from();
  Question question;
  std::memcpy(&question, bytes.data(), sizeof question);
  const std::uint64_t number = questions.at(worker)++;
  if (arrival.about().version != number) {
    co_return Error{Errc::malformed, "worker " + std::to_string(worker) + " asks the state server question " +
                                         std::to_string(arrival.about().version) + " where " + std::to_string(number) +
                                         " is due"};
  }
  if (question.leaves == 1) co_return true;
  const WorkerState state{.round = question.round,
                          .steps = question.steps,
                          .step_seconds = question.step_seconds,
                          .exchange_seconds = question.exchange_seconds};
  const auto more = steps.more(worker, state, now());
  if (!more) co_return more.error();
  AnswerBytes answer;
  std::memcpy(answer.data(), &*more, sizeof *more);
  Send reply(group, worker, {.version = number}, answer);
  if (auto sent = co_await reply; !sent) co_return sent.error();
  co_return false;
}

Task<> answer_all(Communicator& group, StepBudget& steps, const std::function<double()>& now) {
  const std::uint32_t workers = group.rank();
  std::vector<std::uint64_t> questions(group.size());
  for (std::uint32_t left = 0; left < workers;) {
    auto answered = co_await answer_next(group, steps, now, questions);
    if (!answered) {
      group.abort(answered.error(), collectives::Blame::of_giving_up(group.rank()));
      co_return answered.error();
    }
    if (*answered) ++left;
  }
  co_return Result<void>();
}

Task<> ask(Communicator& group, std::uint32_t server, std::uint64_t number, const Question& question,
           std::uint64_t& answer) {
  QuestionBytes bytes;
  std::memcpy(bytes.data(), &question, sizeof question);
  AnswerBytes answer_bytes;
  collectives::Filler into(answer_bytes);
  Send sent(group, server, {.version = number}, bytes);
  if (question.leaves == 1) co_return co_await sent;
  Receive arrival(group, server, {.version = number}, into);
  if (auto done = co_await sent; !done) co_return done.error();
  if (auto done = co_await arrival; !done) co_return done.error();
  std::memcpy(&answer, answer_bytes.data(), sizeof answer);
  co_return Result<void>();
}

}  // namespace

Result<void> serve_states(collectives::Fabric& fabric, std::uint32_t lane, StepBudget& steps,
                          const std::function<double()>& now) {
  return fabric.thread().run([&] { return answer_all(fabric.lane(lane), steps, now); });
}

Result<std::uint64_t> StateClient::more(const WorkerState& state) {
  const Question question{.round = state.round,
                          .steps = state.steps,
                          .step_seconds = state.step_seconds,
                          .exchange_seconds = state.exchange_seconds};
  std::uint64_t answer = 0;
  auto asked = fabric_.thread().run([&] { return ask(fabric_.lane(lane_), server_, asked_, question, answer); });
  ++asked_;
  if (!asked) return asked.error();
  return answer;
}

Result<void> StateClient::leave() {
  std::uint64_t no_answer = 0;
  return fabric_.thread().run([&] { return ask(fabric_.lane(lane_), server_, asked_, {.leaves = 1}, no_answer); });
}

}  // namespace weir::training
