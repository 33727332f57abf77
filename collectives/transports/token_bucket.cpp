#include "collectives/transports/token_bucket.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weir::collectives {
namespace {

/// Longer than a thread usually waits for its turn, so that no rate is lost by that.
constexpr double burst_seconds = 0.02;
constexpr double burst_bytes_min = 4096;
constexpr double worth_a_call = 0.25;  ///< of a burst
constexpr double held_up_seconds_max = 1;

}  // namespace

TokenBucket::TokenBucket(double bytes_per_second, std::function<Time()> now)
    : rate_(bytes_per_second),
      burst_(std::max(burst_bytes_min, burst_seconds * bytes_per_second)),
      least_(std::min(worth_a_call * burst_, held_up_seconds_max * bytes_per_second)),
      now_(std::move(now)),
      filled_at_(now_()),
      bytes_(burst_) {}

void TokenBucket::fill() {
  const Time now = now_();
  bytes_ = std::min(burst_, bytes_ + rate_ * std::chrono::duration<double>(now - filled_at_).count());
  filled_at_ = now;
}

std::size_t TokenBucket::allowance() {
  fill();
  return bytes_ < least_ ? 0 : static_cast<std::size_t>(bytes_);
}

void TokenBucket::take(std::size_t bytes) { bytes_ -= static_cast<double>(bytes); }

std::chrono::nanoseconds TokenBucket::wait() {
  fill();
  const double missing = std::max(0.0, least_ - bytes_);
  return std::chrono::nanoseconds(static_cast<std::int64_t>(std::ceil(1e9 * missing / rate_)));
}

}  // namespace weir::collectives
