#include "training/datasets/loader.hpp"

#include <utility>

#include "base/ensure.hpp"

namespace weir::training {

Loader::Loader(const Examples& examples, at::Device device) : examples_(examples) {
  if (!device.is_cpu()) copies_.emplace(device);
  thread_ = std::thread([this] { run(); });
}

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
  if (copies_) copies_->hold_back();
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
  if (copies_) copies_->join();
  return *std::exchange(batch_, std::nullopt);
}

Batch Loader::prepare() {
  Batch& place = memory_[next_];
  next_ = (next_ + 1) % memory_.size();
  if (copies_) copies_->wait();
  Batch batch = examples_.augmented(positions_, pass_, place);
  if (!copies_) return place = std::move(batch);
  place = copies_->in_their_memory(std::move(batch));
  return copies_->begin(place);
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
      batch = prepare();
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
