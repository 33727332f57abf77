#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/loop.hpp"
#include "collectives/task.hpp"

namespace weir::collectives {

/// Runs a loop on a thread of its own, for as long as it exists.
class LoopThread {
 public:
  explicit LoopThread(std::unique_ptr<Loop> loop);
  ~LoopThread();

  Loop& loop() { return *loop_; }

  /// Runs `work` on the loop's thread and waits until it has returned. From any other thread.
  void call(const std::function<void()>& work);

  /// Runs the task that `make` makes, both on the loop's thread, and waits for its result. From any other thread.
  Result<void> run(const std::function<Task<>()>& make);

 private:
  std::unique_ptr<Loop> loop_;
  std::jthread thread_;
};

/// One rank's end of a group, with all its lanes, for the threads that use it. Lane 0 is the most urgent. The failure
/// of one lane ends all of them.
class Fabric {
 public:
  /// `lanes` are communicators of the same rank, on the thread's loop.
  Fabric(std::shared_ptr<LoopThread> thread, std::vector<std::unique_ptr<Communicator>> lanes);
  /// The others see this rank as lost, unless close() came before. No task may use the lanes any more.
  ~Fabric();

  std::uint32_t rank() const { return rank_; }
  std::uint32_t size() const { return size_; }
  std::uint32_t lanes() const { return static_cast<std::uint32_t>(lanes_.size()); }

  /// To be used on the loop's thread only.
  Communicator& lane(std::uint32_t lane) { return *lanes_[lane]; }

  /// The loop's thread: where all tasks that use the lanes run.
  LoopThread& thread() { return *thread_; }
  std::shared_ptr<LoopThread> shared_thread() { return thread_; }

  /// Makes all that is under way and all that comes later fail with `cause`. The others are told that this rank has
  /// given up or, if it `leaves`, that it is lost. From any thread but the loop's.
  void abort(const Error& cause, bool leaves = false);

  /// Leaves the group in an orderly way and waits for that (Communicator::close). An abort() ends the waiting.
  void close();

  /// In all lanes. From any thread.
  Traffic traffic_with(std::uint32_t rank) const;
  Traffic traffic() const;
  std::optional<std::uint32_t> lost_rank() const;
  bool ended_by_another() const;

 private:
  std::shared_ptr<LoopThread> thread_;
  std::vector<std::unique_ptr<Communicator>> lanes_;
  const std::uint32_t rank_;
  const std::uint32_t size_;
};

/// Some ranks of a group, of which this is one, as a group of their own: over the first `lanes` lanes of `whole`, which
/// must outlive it. `members` are ascending. What fails in the part fails in the whole; to leave, close the whole.
std::unique_ptr<Fabric> part_of(Fabric& whole, const std::vector<std::uint32_t>& members, std::uint32_t lanes);

}  // namespace weir::collectives
