#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

#include "base/errc.hpp"
#include "collectives/receivers.hpp"
#include "training/state_server/messages.hpp"
#include "training/state_server/state_server.hpp"
#include "training/state_server/step_budget.hpp"

namespace weir::training {
namespace {

using collectives::Communicator;
using collectives::Receive;
using collectives::Send;
using collectives::Task;

struct Server {
  Communicator& group;
  std::uint32_t rank;
};

/// Asks question `number`, and waits for the answer if there is one.
Task<> ask(Server server, std::uint64_t number, const Question& question, Answer& answer) {
  QuestionBytes bytes;
  std::memcpy(bytes.data(), &question, sizeof question);
  AnswerBytes answer_bytes;
  collectives::Filler into(answer_bytes);
  Send sent(server.group, server.rank, {.version = number}, bytes);
  if (question.asks == static_cast<std::uint64_t>(Asks::nothing)) co_return co_await sent;
  Receive arrival(server.group, server.rank, {.version = number}, into);
  if (auto done = co_await sent; !done) co_return done.error();
  if (auto done = co_await arrival; !done) co_return done.error();
  std::memcpy(&answer, answer_bytes.data(), sizeof answer);
  co_return Result<void>();
}

/// Sends the body of probe `number`, and waits until it has arrived.
Task<> send_probe(Server server, std::uint64_t number, BytesView body) {
  AnswerBytes answer;
  collectives::Filler into(answer);
  Send sent(server.group, server.rank, {.version = number, .part = 1}, body);
  Receive arrival(server.group, server.rank, {.version = number}, into);
  if (auto done = co_await sent; !done) co_return done.error();
  co_return co_await arrival;
}

}  // namespace

Result<Grant> StateClient::more(const WorkerState& state, std::uint64_t job_step) {
  const Question question{.asks = static_cast<std::uint64_t>(Asks::steps),
                          .job_step = job_step,
                          .round = state.round,
                          .steps = state.steps,
                          .left = state.left,
                          .step_seconds = state.step_seconds,
                          .encode_seconds = state.encode_seconds,
                          .link_seconds = state.link_seconds,
                          .share = state.share};
  Answer answer;
  const Server server{fabric_.lane(lane_), server_};
  auto asked = fabric_.thread().run([&] { return ask(server, asked_, question, answer); });
  ++asked_;
  if (!asked) return asked.error();
  if (!(answer.share > 0 && answer.share <= 1)) {
    return Error{Errc::malformed, "the state server answers with a share that is none"};
  }
  const std::uint64_t most = StepBudget::Options().steps_max;
  if (answer.steps > most - std::min(most, state.steps)) {
    return Error{Errc::malformed, "the state server grants " + std::to_string(answer.steps) + " steps after " +
                                      std::to_string(state.steps) + " in one round"};
  }
  return Grant{.steps = answer.steps, .share = answer.share};
}

Result<void> StateClient::leave(std::uint64_t job_step, bool finished) {
  const Question question{
      .asks = static_cast<std::uint64_t>(Asks::nothing), .job_step = job_step, .left = finished ? 0U : 1U};
  Answer none;
  const Server server{fabric_.lane(lane_), server_};
  return fabric_.thread().run([&] { return ask(server, asked_, question, none); });
}

Result<void> StateClient::measure_link(std::uint64_t bytes_max, double limit) {
  constexpr std::uint64_t bytes_min = std::uint64_t{1} << 10;
  constexpr std::uint64_t bytes_usual = std::uint64_t{64} << 10;
  link_bytes_per_second_ = limit;
  if (limit > 0 && limit < static_cast<double>(bytes_usual)) return {};
  const std::uint64_t longest = std::clamp(bytes_max, bytes_usual, probe_bytes_max);
  const Server server{fabric_.lane(lane_), server_};
  double before = 0;  // what the last, shorter one took
  std::uint64_t bytes_before = 0;
  for (std::uint64_t bytes = bytes_min; bytes <= longest; bytes *= 4) {
    const Question question{.asks = static_cast<std::uint64_t>(Asks::probe), .bytes = bytes};
    Answer leave;
    const std::uint64_t number = asked_++;
    if (auto asked = fabric_.thread().run([&] { return ask(server, number, question, leave); }); !asked) return asked;
    const Bytes body(bytes);
    const auto start = std::chrono::steady_clock::now();
    if (auto sent = fabric_.thread().run([&] { return send_probe(server, number, body); }); !sent) return sent;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    // Of the difference, which does not contain what a link takes for messages of any length.
    const double measured = static_cast<double>(bytes - bytes_before) / std::max(seconds - before, 1e-6);
    link_bytes_per_second_ = limit > 0 ? std::min(measured, limit) : measured;
    // The first one may have taken no more than any message does. A pause of the processor must not pass for a link
    // that carries next to nothing.
    const double seconds_enough = bytes < bytes_usual ? 0.25 : 0.05;
    if (bytes > bytes_min && seconds - before >= seconds_enough) break;
    before = seconds;
    bytes_before = bytes;
  }
  return {};
}

}  // namespace weir::training
