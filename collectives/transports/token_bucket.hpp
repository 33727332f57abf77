#pragma once

#include <chrono>
#include <cstddef>
#include <functional>

namespace weir::collectives {

/// Lets bytes pass at a rate: over any time, as many as the rate allows in it and one burst more. Used by one thread.
class TokenBucket {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit TokenBucket(double bytes_per_second, std::function<Time()> now = std::chrono::steady_clock::now);

  /// The bytes that may pass now. None until there are enough for a call of the system to be worth its while. On a very
  /// slow line that is as much as passes in a second: the few bytes that say that a rank waits are held up no longer.
  std::size_t allowance();
  /// So many have passed, no more than allowance() said.
  void take(std::size_t bytes);
  double bytes_per_second() const { return rate_; }

  /// How long until allowance() is not zero.
  std::chrono::nanoseconds wait();

 private:
  void fill();

  const double rate_;
  const double burst_;  ///< so much is saved up while nothing passes
  const double least_;  ///< that passes at once
  const std::function<Time()> now_;
  Time filled_at_;
  double bytes_;
};

}  // namespace weir::collectives
