#include "training/datasets/loader.hpp"

#include <utility>

#include "base/ensure.hpp"

namespace weir::training {

Loader::Loader(const Examples& examples) : examples_(examples), thread_([this] { run(); }) {}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Loader::ask(std::span<const std::uint32_t> positions, const Pass& pass) {
  ensure(!asked_, "one batch at a time");
  asked_ = true;
  {
    const std::lock_guard lock(mutex_);
    positions_.assign(positions.begin(), positions.end());
    pass_ = pass;
    wanted_ = true;
  }
  changed_.notify_all();
}

Batch Loader::take() {
  ensure(asked_, "a batch that was asked for");
  asked_ = false;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return batch_ || failure_; });
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  return *std::exchange(batch_, std::nullopt);
}

void Loader::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return wanted_ || ending_; });
    if (ending_) return;
    wanted_ = false;
    // Nobody touches the request until its batch is taken.
    lock.unlock();
    std::optional<Batch> batch;
    std::exception_ptr failure;
    try {
      batch = examples_.augmented(positions_, pass_);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    batch_ = std::move(batch);
    failure_ = failure;
    changed_.notify_all();
  }
}

}  // namespace weir::training
