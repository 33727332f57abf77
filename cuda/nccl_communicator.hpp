#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/function_ref.hpp"
#include "collectives/collective.hpp"
#include "collectives/communicator.hpp"
#include "collectives/transports/epoll_loop.hpp"
#include "cuda/aside.hpp"
#include "cuda/event.hpp"
#include "cuda/memory.hpp"
#include "cuda/nccl.hpp"
#include "cuda/nccl_library.hpp"
#include "cuda/pinned_memory.hpp"
#include "cuda/stream.hpp"

namespace weir::cuda {

/// What NCCL and the copies around it use. Whoever may still use it shares it: it is freed when nobody does.
struct NcclResources {
  /// Fails with: internal (no GPU of that number, or no driver). May block while the driver starts.
  static Result<std::shared_ptr<NcclResources>> make(std::shared_ptr<const NcclLibrary> library, std::int32_t gpu);

  std::shared_ptr<const NcclLibrary> library;
  std::int32_t gpu;
  Stream stream;                       ///< of all that is done here
  Event given;                         ///< where the caller's stream was when an operation began
  Event done;                          ///< where ours was when all of it had been put there
  std::optional<Memory> staging;       ///< for payloads
  std::optional<PinnedMemory> pinned;  ///< as much
};

/// One rank's end of a communicator of NCCL: work on a stream of its own, one operation at a time, whose end is looked
/// for by a timer of the loop. Owned by the collective, on the loop's thread, on which nothing waits.
class NcclCommunicator {
 public:
  /// `control` and its loop, which is `loop`, must outlive it.
  NcclCommunicator(collectives::Communicator& control, collectives::EpollLoop& loop,
                   std::shared_ptr<NcclResources> resources, const NcclOptions& options);
  ~NcclCommunicator();

  /// Once, before anything else. Fails with: io, internal, deadline_exceeded, or as `control` does.
  collectives::Task<> connect(NcclId id);

  /// Carries out an operation. Its failure ends the communicator, and `control`.
  collectives::Task<> operate(collectives::Operation operation, collectives::Task<> work);

  // What an operation does.

  /// What is done from now on begins after what the stream of `device` has to do now.
  Result<void> begin_after(const collectives::Device& device);

  /// Makes room for payloads in staging() and pinned().
  collectives::Task<> reserve(std::size_t bytes);
  std::byte* staging() const { return resources_->staging->data(); }
  std::byte* pinned() const { return resources_->pinned->bytes().data(); }

  using Call = FunctionRef<NcclStatus(const NcclFunctions& nccl, ncclComm* communicator, StreamHandle stream)>;
  /// Has NCCL put work into the stream; what follows there follows it. `call` must outlive the task.
  collectives::Task<> run(Call call);

  /// Copies between staging(), pinned() and what begin_after() was called for.
  Result<void> copy(BytesView from, std::byte* to) const;

  /// The point that has to be reached for the operation to end; what comes later in the stream of `device` waits for
  /// it.
  Result<void> mark_end();
  Result<void> hold_back(const collectives::Device& device) const;
  /// Until it has been reached.
  collectives::Task<> reach_end();

  collectives::Task<> close();

 private:
  using Clock = std::chrono::steady_clock;
  class Flight;
  struct Made;

  collectives::Task<> wait(FunctionRef<Result<bool>()> ended, std::chrono::milliseconds limit);
  Result<void> look();
  collectives::Task<> pause(Clock::time_point since);
  collectives::Task<> until_ended(const Aside& work);
  collectives::Task<> let_go();
  void abort(const Error& cause);

  collectives::Communicator& control_;
  collectives::EpollLoop& loop_;
  std::shared_ptr<NcclResources> resources_;
  const NcclOptions options_;
  ncclComm* communicator_ = nullptr;
  bool connected_ = false;
  NcclStatus state_ = NcclStatus::success;  ///< as NCCL told it last
  Clock::time_point waiting_since_;         ///< of wait()
  collectives::Subject about_;              ///< of the operation
  std::optional<Error> failure_;
  std::optional<Aside> ending_;                ///< of NCCL's communicator
  std::shared_ptr<std::atomic<bool>> let_go_;  ///< NCCL does not use any buffers any more
};

}  // namespace weir::cuda
