#include "training/exchange/codec_thread.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <exception>

#include "training/thrown.hpp"

namespace weir::training {

CodecThread::CodecThread(collectives::Loop& loop)
    : loop_(loop), thread_([this](const std::stop_token& stopping) { work_through(stopping); }) {}

CodecThread::~CodecThread() = default;

void CodecThread::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void CodecThread::begin(Item& item) {
  item.loop_ = &loop_;
  item.hold_.emplace(loop_);
  const std::lock_guard lock(mutex_);
  const auto not_urgent = [](const Item* other) { return !other->urgent_; };
  items_.insert(item.urgent_ ? std::ranges::find_if(items_, not_urgent) : items_.end(), &item);
  changed_.notify_one();
}

void CodecThread::work_through(const std::stop_token& stopping) {
  const at::NoGradGuard no_grad;
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stopping, [this] { return !items_.empty(); })) {
    if (stopping.stop_requested()) return;
    Item& item = *items_.front();
    items_.erase(items_.begin());
    lock.unlock();
    try {
      item.result_ = item.work();
    } catch (const std::exception& thrown) {
      item.result_ = error_of(thrown).within("exchange");
    }
    loop_.post(item);
    lock.lock();
  }
}

}  // namespace weir::training
