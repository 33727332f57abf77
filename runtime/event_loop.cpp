#include "runtime/event_loop.hpp"

namespace weir::runtime {

void run(boost::asio::io_context& io) {
  using Clock = std::chrono::steady_clock;
  auto busy = Clock::now();
  while (!io.stopped()) {
    const bool found = io.poll() > 0;
    const auto now = Clock::now();
    if (!found && now - busy < attention) continue;
    if (!found && io.run_one() == 0) return;
    busy = found ? now : Clock::now();
  }
}

}  // namespace weir::runtime
