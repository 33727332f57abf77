#include "training/modes/slowdown.hpp"

#include <thread>
#include <utility>

namespace weir::training {

void Slowdown::default_sleep(Duration duration) { std::this_thread::sleep_for(duration); }

Slowdown::Slowdown(double factor, Clock clock) : factor_(factor), clock_(std::move(clock)) {}

void Slowdown::begin() {
  if (factor_ > 1) begun_ = clock_.now();
}

void Slowdown::end() {
  if (factor_ > 1) clock_.sleep(std::chrono::duration_cast<Duration>((factor_ - 1) * (clock_.now() - begun_)));
}

}  // namespace weir::training
