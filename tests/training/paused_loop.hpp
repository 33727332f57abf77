#pragma once

#include <latch>
#include <thread>

#include "collectives/fabric.hpp"
#include "collectives/transports/in_process.hpp"

namespace weir::training::testing {

/// Keeps a loop from doing anything, and so its clock from moving, as long as it exists. What is posted meanwhile runs
/// at one time of the clock afterwards.
class Pause {
 public:
  explicit Pause(collectives::LoopThread& thread)
      : asking_([this, &thread] {
          thread.call([this] {
            begun_.count_down();
            over_.wait();
          });
        }) {
    begun_.wait();
  }
  ~Pause() { over_.count_down(); }

 private:
  std::latch begun_{1};
  std::latch over_{1};
  std::jthread asking_;
};

/// What the clock of a simulated network shows.
inline double time_of(collectives::LoopThread& thread) {
  double now = 0;
  thread.call([&] { now = dynamic_cast<collectives::InProcessNetwork&>(thread.loop()).now(); });
  return now;
}

}  // namespace weir::training::testing
