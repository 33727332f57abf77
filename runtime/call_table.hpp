#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/call.hpp"
#include "runtime/clock.hpp"

namespace weir::runtime {

/// The callers that wait for answers over one link, or inside one process. Shared by the link's peer and the callers.
/// Thread-safe. A caller leaves the table exactly once: by its answer, its deadline, its cancellation, or close().
///
/// Calls with the same time limit expire in the order they were made, so one list per limit is a priority queue, and
/// adding and removing a call are O(1): one timer serves them all.
class CallTable : public std::enable_shared_from_this<CallTable> {
 public:
  static constexpr std::size_t calls_max = 1u << 20;

  /// `executor` runs the deadline timer.
  CallTable(Clock& clock, net::any_io_executor executor) : clock_(clock), executor_(std::move(executor)) {}

  /// Takes `waiting` over and returns the number of the call. `limit` is the time until its deadline. Fails with:
  /// exhausted, or the error that close() was given; `waiting` then stays with the caller.
  Result<std::uint64_t> add(Clock::duration limit, std::unique_ptr<PendingReply>& waiting);

  /// Removes and returns the caller waiting under that number; null if there is none, or no longer one.
  std::unique_ptr<PendingReply> take(std::uint64_t call);

  /// Fails every waiting call with `why`, at once, and all later ones.
  void close(const Error& why);

 private:
  static constexpr std::uint32_t none = ~0u;
  static constexpr std::size_t idle_lists_max = 64;

  struct Expiry {  ///< the calls with one time limit, earliest deadline first
    std::uint32_t first = none;
    std::uint32_t last = none;
  };
  struct Slot {
    std::unique_ptr<PendingReply> waiting;
    Expiry* expiry = nullptr;
    Clock::time_point deadline;
    std::uint32_t generation = 0;
    std::uint32_t before = none;
    std::uint32_t after = none;  ///< also links the free list
  };

  Expiry& expiry_of(Clock::duration limit);
  std::unique_ptr<PendingReply> remove(std::uint32_t index);
  void arm(Clock::time_point when);
  void expire();

  Clock& clock_;
  net::any_io_executor executor_;
  std::mutex mutex_;
  std::vector<Slot> slots_;
  std::uint32_t free_ = none;
  std::size_t size_ = 0;
  std::map<Clock::duration, Expiry> expiries_;
  std::unique_ptr<Timer> timer_;
  Clock::time_point armed_for_ = Clock::time_point::max();
  std::optional<Error> closed_;
};

}  // namespace weir::runtime
