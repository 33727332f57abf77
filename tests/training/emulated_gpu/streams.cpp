#include "streams.hpp"

#include <utility>

namespace weir::testing {

DeviceStreams& DeviceStreams::get() {
  static auto* const streams = new DeviceStreams;
  return *streams;
}

DeviceStreams::Id& DeviceStreams::current() {
  thread_local Id id = 0;
  return id;
}

DeviceStreams::Id DeviceStreams::take_new() {
  const std::lock_guard lock(mutex_);
  return ++newest_;
}

void DeviceStreams::add(Id stream, std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  queues_[stream].work.push_back(std::move(work));
}

auto DeviceStreams::end_of(Id stream) -> Point {
  const std::lock_guard lock(mutex_);
  const Queue& queue = queues_[stream];
  return {stream, queue.done + queue.work.size()};
}

bool DeviceStreams::reached(const Point& point) {
  const std::lock_guard lock(mutex_);
  return queues_[point.stream].done >= point.number;
}

void DeviceStreams::run_to(const Point& point) {
  const std::lock_guard lock(mutex_);
  Queue& queue = queues_[point.stream];
  while (queue.done < point.number) {
    const auto work = std::move(queue.work.front());
    queue.work.pop_front();
    work();  // may have other streams run
    ++queue.done;
  }
}

}  // namespace weir::testing
