#pragma once

#include <chrono>

namespace weir::training {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Seconds since it was made.
class Stopwatch {
 public:
  double seconds() const { return seconds_since(start_); }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace weir::training
