#include "collectives/loop.hpp"

#include <utility>

namespace weir::collectives {

void Loop::post(Request& request) {
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
    requested_ = true;
  }
  wake();
}

void Loop::run() {
  while (true) {
    const bool busy = run_requests() | run_ready();
    if (stopping_ && stopping_.exchange(false)) return;
    advance(!busy);
  }
}

void Loop::stop() {
  stopping_ = true;
  wake();
}

void Loop::run_while_busy() {
  while (run_once()) {
  }
}

bool Loop::run_once() {
  bool busy = run_requests();
  busy |= advance(false);
  busy |= run_ready();  // last: the others make coroutines ready
  return busy;
}

void Loop::end(Waiting& waiting, const Result<void>& result) {
  waiting.result_ = result;
  if (waiting.is_linked()) waiting.unlink();
  ready_.push_back(waiting);
}

/// Resumes what was ready when it was called; what becomes ready meanwhile waits for the next call.
bool Loop::run_ready() {
  if (ready_.empty()) return false;
  WaitingList<Waiting> now;
  now.swap(ready_);
  while (!now.empty()) {
    Waiting& waiting = now.front();
    now.pop_front();
    if (const auto waiter = std::exchange(waiting.waiter_, nullptr)) waiter.resume();
  }
  return true;
}

bool Loop::run_requests() {
  if (!requested_) return false;
  boost::intrusive::list<Request> now;
  {
    const std::lock_guard lock(mutex_);
    now.swap(requests_);
    requested_ = false;
  }
  if (now.empty()) return false;
  while (!now.empty()) {
    Request& request = now.front();
    now.pop_front();
    request.run();
  }
  return true;
}

}  // namespace weir::collectives
