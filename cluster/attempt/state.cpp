#include "cluster/attempt/state.hpp"

#include <utility>

#include "base/ensure.hpp"

namespace weir::cluster {
namespace {

using Step = AttemptState::Step;

bool may_follow(Step from, Step to) {
  switch (to) {
    case Step::spawning: return false;
    case Step::initialising: return from == Step::spawning;
    case Step::joining: return from == Step::initialising;
    case Step::training: return from == Step::joining;
    case Step::stopping: return from < Step::stopping;
    case Step::taking_down: return from < Step::taking_down;
    case Step::over: return from < Step::over;  // from any: an abandoned attempt leaves its processes to their nodes
  }
  return false;
}

}  // namespace

bool AttemptState::enter(Step next) {
  ensure(may_follow(step_, next), "a step of an attempt that may follow");
  step_ = next;
  const JobPhase before = phase();
  switch (next) {
    case Step::initialising: phase_ = JobPhase::initialising; break;
    case Step::training: phase_ = JobPhase::training; break;
    case Step::stopping: phase_ = JobPhase::stopping; break;
    default: break;
  }
  return phase() != before;
}

bool AttemptState::request_stop() {
  const JobPhase before = phase();
  stop_requested_ = true;
  return phase() != before;
}

void AttemptState::note_lost_gpu(const std::string& uuid) {
  if (!is_ending()) lost_gpus_.insert(uuid);
}

void AttemptState::note_gpu_back(const std::string& uuid) {
  if (!has_failed()) lost_gpus_.erase(uuid);
}

void AttemptState::show_sign(std::string what) {
  if (sign_.empty()) sign_ = std::move(what);
}

void AttemptState::blame(std::string cause) {
  if (cause_.empty()) cause_ = std::move(cause);
}

}  // namespace weir::cluster
