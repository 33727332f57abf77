#pragma once

#include <chrono>
#include <functional>
#include <future>

namespace weir::cuda {

/// Work that may block for long or for ever, on a thread of its own: a loop looks whether it has ended. Destroying this
/// does not end it, so that it must own what it uses.
class Aside {
 public:
  explicit Aside(std::function<void()> work);

  /// Whether the work has returned, and what it owned is gone. From any thread.
  bool ended() const { return ended_within(std::chrono::milliseconds(0)); }
  /// Waits for that. Not on a loop's thread.
  bool ended_within(std::chrono::milliseconds time) const { return end_.wait_for(time) == std::future_status::ready; }

 private:
  std::shared_future<void> end_;
};

}  // namespace weir::cuda
