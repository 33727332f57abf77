#include "training/state_server/step_budget.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/ensure.hpp"
#include "base/errc.hpp"

namespace weir::training {
namespace {

/// The longest duration is one of thirty years, so that sums and quotients are finite.
bool is_duration(double seconds) { return seconds >= 0 && seconds <= 1e9; }

}  // namespace

StepBudget::StepBudget(const Options& options) : options_(options), workers_(options.workers) {
  ensure(options.workers > 0 && options.steps_max > 0, "workers that may make steps");
}

Result<void> StepBudget::check(std::uint32_t number, const WorkerState& state) const {
  const auto refuse = [number](const std::string& what) {
    return Error{Errc::malformed, "worker " + std::to_string(number) + " tells the state server of " + what};
  };
  if (number >= workers_.size()) return refuse("itself, which is none of " + std::to_string(workers_.size()));
  const Worker& worker = workers_[number];
  if (!(state.share > 0 && state.share <= 1)) return refuse("a share that is none");
  const bool durations = is_duration(state.step_seconds) && is_duration(state.encode_seconds) &&
                         is_duration(state.link_seconds / state.share);
  if (!durations) return refuse("durations that are none");
  const std::uint64_t due = worker.ready ? worker.round + 1 : worker.round;
  if (state.round != due) {
    return refuse("round " + std::to_string(state.round) + " where " + std::to_string(due) + " is due");
  }
  const std::uint64_t made = worker.ready || !worker.asked ? 0 : worker.granted;
  if (state.steps != made) {
    return refuse(std::to_string(state.steps) + " steps where it was granted " + std::to_string(made));
  }
  const bool others_wait = std::ranges::all_of(workers_, [&](const Worker& other) {
    return other.round >= state.round || (other.ready && other.round + 1 == state.round);
  });
  if (!others_wait) return refuse("round " + std::to_string(state.round) + ", which others cannot have come to");
  if (begun_ && state.round == round_ && state.left != left_before_) {
    return refuse(std::to_string(state.left) + " steps that are left in round " + std::to_string(state.round) +
                  " where others say " + std::to_string(left_before_));
  }
  return {};
}

void StepBudget::learn(Worker& worker, const WorkerState& state) const {
  if (state.encode_seconds > 0) {
    const double share = worker.encode_seconds > 0 ? options_.smoothing : 1.0;
    worker.encode_seconds += share * (state.encode_seconds - worker.encode_seconds);
  }
  if (state.step_seconds <= 0) return;
  const double share = ++worker.durations <= 2 ? 1.0 : options_.smoothing;
  worker.step_seconds += share * (state.step_seconds - worker.step_seconds);
}

double StepBudget::end_of(const Worker& worker, std::uint64_t round, double now) const {
  if (worker.round == round && worker.ready) return worker.answered + worker.encode_seconds;
  const bool at_work = worker.round == round && worker.asked;
  const double steps = at_work ? static_cast<double>(worker.given) : 1;  // the first step of a round is always made
  const double begin = at_work ? worker.answered : now;
  return std::max(now, begin + steps * worker.step_seconds) + worker.encode_seconds;
}

std::uint64_t StepBudget::free_steps(const Worker& worker) const {
  const auto owed = static_cast<std::uint64_t>(std::ranges::count_if(
      workers_, [&](const Worker& other) { return &other != &worker && (other.round != round_ || !other.asked); }));
  const std::uint64_t more = options_.steps_max - std::min(options_.steps_max, worker.granted);
  return std::min(more, left_ - std::min(left_, owed));
}

Result<std::uint64_t> StepBudget::more(std::uint32_t number, const WorkerState& state, double now) {
  if (auto fits = check(number, state); !fits) return fits.error();
  Worker& worker = workers_[number];
  if (!begun_ || state.round != round_) {
    begun_ = true;
    round_ = state.round;
    left_ = left_before_ = state.left;
  }
  if (state.round != worker.round)
    worker = {.round = state.round,
              .step_seconds = worker.step_seconds,
              .encode_seconds = worker.encode_seconds,
              .durations = worker.durations};
  learn(worker, state);

  double end = now;  // if this worker were ready
  bool all_known = worker.step_seconds > 0;
  for (const Worker& other : workers_) {
    if (&other == &worker) continue;
    all_known = all_known && other.step_seconds > 0;
    end = std::max(end, end_of(other, state.round, now));
  }
  std::uint64_t more = 0;
  if (all_known) {
    const double room = (end - now - worker.encode_seconds) / worker.step_seconds;
    const auto free = static_cast<double>(free_steps(worker));
    more = static_cast<std::uint64_t>(std::clamp(std::floor(room), 0.0, free));
  }
  if (!worker.asked) more = std::max<std::uint64_t>(more, 1);
  worker.asked = true;
  worker.ready = more == 0;
  worker.answered = now;
  worker.given = more;
  worker.granted += more;
  left_ -= std::min(left_, more);
  return more;
}

}  // namespace weir::training
