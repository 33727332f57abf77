#pragma once

#include <chrono>
#include <functional>

namespace weir::training {

/// Makes what a worker computes take longer, as if its machine were slower. Used by one thread.
class Slowdown {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;
  struct Clock {
    std::function<Time()> now = std::chrono::steady_clock::now;
    std::function<void(Duration)> sleep = default_sleep;
  };

  /// `factor`: so many times as long, at least 1.
  explicit Slowdown(double factor) : Slowdown(factor, Clock()) {}
  Slowdown(double factor, Clock clock);

  bool slows() const { return factor_ > 1; }

  void begin();
  /// Sleeps for the rest of the time since begin().
  void end();

 private:
  static void default_sleep(Duration duration);

  const double factor_;
  const Clock clock_;
  Time begun_;
};

}  // namespace weir::training
