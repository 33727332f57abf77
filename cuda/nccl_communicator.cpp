#include "cuda/nccl_communicator.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/errc.hpp"
#include "cuda/device.hpp"

namespace weir::cuda {
namespace {

using collectives::Blame;
using collectives::Device;
using collectives::EpollLoop;
using collectives::Operation;
using collectives::Task;
using std::chrono::milliseconds;

/// So long the loop looks in each of its rounds whether something has ended, then once in a millisecond.
constexpr std::chrono::microseconds attentive{200};

/// After an error of NCCL, how long the lane has to say which rank is lost.
constexpr milliseconds grace{1000};

/// How long an operation that has failed waits for NCCL to let go of its buffers.
constexpr milliseconds let_go_within{1000};

constexpr milliseconds revoke_within{500};
constexpr milliseconds finalize_within{2000};
constexpr milliseconds close_within{5000};

/// Whether `ended` returns true within the limit. On a thread that may wait.
bool waits_for(milliseconds limit, FunctionRef<bool()> ended) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!ended()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

/// Whether NCCL comes to an end of what it has answered `state` to, well.
bool settles(const NcclFunctions& nccl, ncclComm* communicator, NcclStatus state, milliseconds limit) {
  const auto settled = [&] {
    const bool told =
        state != NcclStatus::in_progress || nccl.comm_async_error(communicator, &state) == NcclStatus::success;
    return !told || state != NcclStatus::in_progress;
  };
  return waits_for(limit, settled) && state == NcclStatus::success;
}

}  // namespace

Result<std::shared_ptr<NcclResources>> NcclResources::make(std::shared_ptr<const NcclLibrary> library,
                                                           std::int32_t gpu) {
  if (auto used = use_gpu(gpu); !used) return used.error();
  auto stream = Stream::make();
  if (!stream) return stream.error();
  auto given = Event::make_untimed();
  if (!given) return given.error();
  auto done = Event::make_untimed();
  if (!done) return done.error();
  return std::make_shared<NcclResources>(
      NcclResources{std::move(library), gpu, std::move(*stream), std::move(*given), std::move(*done), {}, {}});
}

/// What another thread makes.
struct NcclCommunicator::Made {
  Result<void> usable;  ///< the GPU
  NcclStatus state = NcclStatus::success;
  ncclComm* communicator = nullptr;
};

/// An operation that is under way. If it is destroyed before its end, so is what the ranks have in common.
class NcclCommunicator::Flight {
 public:
  explicit Flight(NcclCommunicator& of) : of_(of) {}
  ~Flight() {
    if (landed) return;
    const Error cause(Errc::cancelled, "an operation was given up half-way");
    of_.control_.abort(cause, Blame::of_giving_up(of_.control_.rank(), of_.about_));
    of_.abort(cause);
  }
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;

  bool landed = false;

 private:
  NcclCommunicator& of_;
};

NcclCommunicator::NcclCommunicator(collectives::Communicator& control, EpollLoop& loop,
                                   std::shared_ptr<NcclResources> resources, const NcclOptions& options)
    : control_(control),
      loop_(loop),
      resources_(std::move(resources)),
      options_(options),
      let_go_(std::make_shared<std::atomic<bool>>(false)) {}

NcclCommunicator::~NcclCommunicator() {
  abort(Error(Errc::cancelled, "destroyed"));
  if (ending_) (void)ending_->ended_within(let_go_within);
}

Task<> NcclCommunicator::connect(NcclId id) {
  const auto made = std::make_shared<Made>();
  const auto ranks = static_cast<int>(control_.size());
  const auto rank = static_cast<int>(control_.rank());
  // Does not wait for the other ranks, but may for the network and the driver.
  const Aside making([made, resources = resources_, ranks, rank, id] {
    made->usable = use_gpu(resources->gpu);
    NcclConfig config;
    if (made->usable) made->state = resources->library->call().comm_init(&made->communicator, ranks, id, rank, &config);
  });
  auto connected = co_await until_ended(making);
  if (!connected) {
    failure_ = connected.error();
    ending_.emplace([making, made, resources = std::exchange(resources_, nullptr)] {
      while (!making.ended_within(std::chrono::minutes(1))) {
      }
      if (made->communicator != nullptr) resources->library->call().comm_abort(made->communicator);
    });
    co_return connected;
  }
  communicator_ = made->communicator;
  state_ = made->state;
  connected = made->usable;
  if (connected) connected = resources_->library->check(state_, nullptr, "NCCL cannot connect");
  if (connected) {
    const auto settled = [this]() -> Result<bool> { return state_ == NcclStatus::success; };
    connected = co_await wait(settled, options_.connect_within);
  }
  connected_ = connected.has_value();
  if (connected) co_return connected;
  abort(connected.error());
  if (auto ended = co_await let_go(); !ended) co_return ended.error();
  co_return connected.error().within("connecting");
}

/// Looks what NCCL says of the communicator.
Result<void> NcclCommunicator::look() {
  const NcclLibrary& library = *resources_->library;
  const NcclStatus asked = library.call().comm_async_error(communicator_, &state_);
  if (auto answered = library.check(asked, communicator_, "NCCL does not say how it is"); !answered) return answered;
  return library.check(state_, communicator_, "NCCL has failed");
}

/// Until `ended` returns true, for which NCCL gets `limit` from waiting_since_ on, which `ended` may set later.
Task<> NcclCommunicator::wait(FunctionRef<Result<bool>()> ended, milliseconds limit) {
  const auto begun = Clock::now();
  waiting_since_ = begun;
  Result<void> fine;
  while (true) {
    if (const Error* failed = control_.failure()) co_return *failed;
    if (fine) {
      fine = look();
      if (fine) {
        const auto end = ended();
        if (end && *end) co_return Result<void>();
        if (!end) fine = end.error();
      }
      if (!fine) waiting_since_ = Clock::now();
      if (fine && Clock::now() - waiting_since_ > limit) {
        co_return Error{Errc::deadline_exceeded, "NCCL has not ended within " + std::to_string(limit.count()) + " ms"};
      }
    } else if (Clock::now() - waiting_since_ > grace) {
      co_return fine.error();
    }
    if (auto paused = co_await pause(begun); !paused) co_return paused.error();
  }
}

Task<> NcclCommunicator::pause(Clock::time_point since) {
  const auto now = Clock::now();
  EpollLoop::Timer next(loop_, now - since < attentive ? now : now + milliseconds(1));
  co_return co_await next;
}

Task<> NcclCommunicator::until_ended(const Aside& work) {
  const auto begun = Clock::now();
  while (!work.ended()) {
    if (const Error* failed = control_.failure()) co_return *failed;
    if (auto paused = co_await pause(begun); !paused) co_return paused.error();
  }
  co_return Result<void>();
}

Task<> NcclCommunicator::let_go() {
  const auto begun = Clock::now();
  while (!*let_go_ && Clock::now() - begun < let_go_within) {
    if (auto paused = co_await pause(begun); !paused) co_return paused.error();
  }
  co_return Result<void>();
}

/// Has NCCL stop what it does, and give up the communicator, without waiting for that.
void NcclCommunicator::abort(const Error& cause) {
  if (failure_) return;
  failure_ = cause;
  ncclComm* const communicator = std::exchange(communicator_, nullptr);
  const bool revokes = connected_ && resources_->library->call().comm_revoke != nullptr;
  auto resources = std::exchange(resources_, nullptr);
  // Freeing waits for the device, too, and must not come before the end of what uses it.
  ending_.emplace([communicator, revokes, let_go = let_go_, resources = std::move(resources)] {
    const NcclFunctions& nccl = resources->library->call();
    if (communicator != nullptr && revokes &&
        settles(nccl, communicator, nccl.comm_revoke(communicator, 0), revoke_within)) {
      // What is behind NCCL's work in the stream reads and writes payloads, too.
      const auto idle = [&] {
        const auto asked = resources->stream.idle();
        return !asked || *asked;
      };
      *let_go = waits_for(revoke_within, idle);
    }
    if (communicator != nullptr) nccl.comm_abort(communicator);
    (void)resources->stream.wait();
    *let_go = true;
  });
}

Task<> NcclCommunicator::operate(Operation operation, Task<> work) {
  if (failure_) co_return *failure_;
  about_ = operation.about;
  Flight flight(*this);
  auto done = co_await carry_out(control_, operation, std::move(work));
  flight.landed = true;
  if (done) co_return done;
  abort(done.error());  // carry_out() has told the other ranks
  if (auto ended = co_await let_go(); !ended) co_return ended.error();
  co_return done;
}

Result<void> NcclCommunicator::begin_after(const Device& device) {
  if (auto used = use_gpu(resources_->gpu); !used) return used;
  if (device.is_host()) return {};
  if (auto noted = resources_->given.record(static_cast<StreamHandle>(device.stream)); !noted) return noted;
  return resources_->given.hold_back(resources_->stream.handle());
}

Task<> NcclCommunicator::reserve(std::size_t bytes) {
  const std::size_t has = resources_->staging ? resources_->staging->size() : 0;
  if (bytes <= has) co_return Result<void>();
  const std::size_t wanted = std::max<std::size_t>(bytes + bytes / 2, std::size_t{1} << 20);
  const auto taken = std::make_shared<Result<void>>();
  // Taking and freeing memory may wait for the device.
  const Aside taking([resources = resources_, wanted, taken] {
    resources->staging.reset();
    resources->pinned.reset();
    *taken = use_gpu(resources->gpu);
    if (!*taken) return;
    auto staging = Memory::allocate(wanted);
    auto pinned = PinnedMemory::allocate(wanted);
    if (!staging) *taken = staging.error();
    if (!pinned) *taken = pinned.error();
    if (!*taken) return;
    resources->staging.emplace(std::move(*staging));
    resources->pinned.emplace(std::move(*pinned));
  });
  if (auto ended = co_await until_ended(taking); !ended) co_return ended.error();
  co_return *taken;
}

Task<> NcclCommunicator::run(Call call) {
  const NcclLibrary& library = *resources_->library;
  auto used = use_gpu(resources_->gpu);
  if (!used) co_return used.error();
  state_ = call(library.call(), communicator_, resources_->stream.handle());
  if (auto taken = library.check(state_, communicator_, "NCCL refuses an operation"); !taken) co_return taken.error();
  if (state_ == NcclStatus::success) co_return Result<void>();
  // Until it has connected to the ranks that it needs for this, the work is not in the stream.
  const auto settled = [this]() -> Result<bool> { return state_ == NcclStatus::success; };
  co_return co_await wait(settled, options_.operation_within);
}

Result<void> NcclCommunicator::copy(BytesView from, std::byte* to) const {
  return copy_bytes(from, to, resources_->stream.handle());
}

Result<void> NcclCommunicator::mark_end() { return resources_->done.record(resources_->stream.handle()); }

Result<void> NcclCommunicator::hold_back(const Device& device) const {
  if (device.is_host()) return {};
  return resources_->done.hold_back(static_cast<StreamHandle>(device.stream));
}

Task<> NcclCommunicator::reach_end() {
  const auto reached = [this]() -> Result<bool> {
    auto given = resources_->given.reached();
    if (!given) return given.error();
    if (!*given) waiting_since_ = Clock::now();  // what the caller's stream has to do before is not NCCL's
    return resources_->done.reached();
  };
  co_return co_await wait(reached, options_.operation_within);
}

Task<> NcclCommunicator::close() {
  if (failure_) co_return Result<void>();
  failure_ = Error(Errc::cancelled, "closed");
  ncclComm* const communicator = std::exchange(communicator_, nullptr);
  ending_.emplace([communicator, resources = std::exchange(resources_, nullptr)] {
    const NcclFunctions& nccl = resources->library->call();
    if (settles(nccl, communicator, nccl.comm_finalize(communicator), finalize_within)) {
      nccl.comm_destroy(communicator);
    } else {
      nccl.comm_abort(communicator);
    }
  });
  const auto begun = Clock::now();
  while (!ending_->ended() && Clock::now() - begun < close_within) {
    if (auto paused = co_await pause(begun); !paused) co_return paused.error();
  }
  co_return Result<void>();
}

}  // namespace weir::cuda
