#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "collectives/communicator.hpp"

namespace weir::collectives {

/// The messages of a longer row of which a rank has sent the last `size`: one begins when the one `size` before it is
/// on its way.
template <std::size_t size>
class SendWindow {
 public:
  /// Waits until the place of message `number` is free for it.
  Task<> make_room(std::size_t number) {
    if (auto& send = at(number)) {
      if (auto sent = co_await *send; !sent) co_return sent.error();
      send.reset();
    }
    co_return Result<void>();
  }
  std::optional<Send>& at(std::size_t number) { return sends_[number % size]; }

  /// Waits for all.
  Task<> finish() {
    for (std::size_t number = 0; number < size; ++number) {
      if (auto sent = co_await make_room(number); !sent) co_return sent.error();
    }
    co_return Result<void>();
  }

 private:
  std::array<std::optional<Send>, size> sends_;
};

}  // namespace weir::collectives
