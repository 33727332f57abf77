// The threads of the emulated device, and the memory that a block's share. runtime.cpp has the rest.

#include "tests/cuda/emulator/emulator.hpp"

#include <cuda_runtime.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

uint3 threadIdx;
uint3 blockIdx;
dim3 blockDim;
dim3 gridDim;

namespace weir::emulator {

constexpr std::size_t shared_max = 227 * 1024;

}  // namespace weir::emulator

namespace weir::cuda {

/// What shared_memory() returns (cuda/kernels/device.cuh).
extern uint4 weir_shared[];
uint4 weir_shared[(emulator::shared_max + emulator::redzone_bytes) / sizeof(uint4)];

}  // namespace weir::cuda

namespace weir::emulator {

void fail(const std::string& sentence) {
  std::fprintf(stderr, "emulated device: %s\n", sentence.c_str());
  std::abort();
}

namespace {

constexpr std::size_t stack_bytes = 128 * 1024;
constexpr unsigned threads_max = 1024;

/// A flow of control: that of a thread, or that which started the kernel and switches to the threads.
struct Fiber {
  /// Continues `to`, until something switches back to this fiber, which is the one that runs.
  void switch_to(Fiber& to) {
#if defined(__SANITIZE_ADDRESS__)
    void* fake_stack = nullptr;
    __sanitizer_start_switch_fiber(&fake_stack, to.stack, to.size);
    swapcontext(&context, &to.context);
    __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#elif defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(to.of_sanitizer, 0);
    swapcontext(&context, &to.context);
#else
    // A jump makes no system call. swapcontext() makes one, for the mask of signals, and takes ten times as long.
    if (_setjmp(place) != 0) return;
    has_begun = true;
    if (to.has_begun) _longjmp(to.place, 1);
    setcontext(&to.context);
#endif
  }

  ucontext_t context{};  ///< in which it begins
  jmp_buf place{};       ///< where it goes on, if it has begun
  bool has_begun = false;
  const void* stack = nullptr;
  std::size_t size = 0;
  void* of_sanitizer = nullptr;
};

enum class State { ready, at_barrier, in_operation, ended };

struct Thread {
  unsigned number = 0;
  Fiber fiber;
  State state = State::ready;
  Where where;  ///< of the barrier or operation
  bool predicate = false;
  unsigned count = 0;
  const char* operation = nullptr;
  unsigned mask = 0;
  std::uint64_t value = 0;
  Lanes given{};
};

void run_thread();

/// The device while it runs a kernel.
class Device {
 public:
  void run(const cudaLaunchConfig_t& config, const std::function<void()>& body);
  void run_body();

  Thread& running() { return *running_; }
  void wait(State state, const Where& where) {
    running_->state = state;
    running_->where = where;
    give_way();
  }
  void give_way() { running_->fiber.switch_to(starter_); }
  unsigned pass_barrier(bool predicate, const Where& where);
  const Lanes& meet(const char* operation, unsigned mask, std::uint64_t value, const Where& where);

  Fiber& starter() { return starter_; }

 private:
  void add_thread();
  void run_block();
  [[noreturn]] void fail_stuck();

  const std::function<void()>* body_ = nullptr;
  std::deque<Thread> threads_;  ///< kept between kernels
  unsigned count_ = 0;          ///< of them in a block
  Thread* running_ = nullptr;
  unsigned at_barrier_ = 0;  ///< how many threads wait there
  Where barrier_;
  Fiber starter_;
  std::optional<std::mt19937> order_;
};

Device device;

std::string at(const Where& where) {
  const std::string file = where.file_name();
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(where.line());
}

/// Of names that mostly are one and the same.
bool same(const char* one, const char* other) { return one == other || std::strcmp(one, other) == 0; }

std::string in_block() { return " (block " + std::to_string(blockIdx.x) + ")"; }

void run_thread() { device.run_body(); }

void Device::run_body() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &starter_.stack, &starter_.size);
#endif
  for (;;) {  // once for each block
    (*body_)();
    wait(State::ended, Where::current());
  }
}

void Device::add_thread() {
  Thread& thread = threads_.emplace_back();
  thread.number = static_cast<unsigned>(threads_.size() - 1);
  void* stack = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack == MAP_FAILED) fail("there is no memory for the stack of a thread");
  getcontext(&thread.fiber.context);
  thread.fiber.context.uc_stack.ss_sp = stack;
  thread.fiber.context.uc_stack.ss_size = stack_bytes;
  makecontext(&thread.fiber.context, run_thread, 0);
  thread.fiber.stack = stack;
  thread.fiber.size = stack_bytes;
#if defined(__SANITIZE_THREAD__)
  thread.fiber.of_sanitizer = __tsan_create_fiber(0);
#endif
}

void Device::run(const cudaLaunchConfig_t& config, const std::function<void()>& body) {
#if defined(__SANITIZE_THREAD__)
  starter_.of_sanitizer = __tsan_get_current_fiber();
#endif
  const char* seed = std::getenv("WEIR_CUDA_ORDER");
  if (seed != nullptr && !order_) order_.emplace(static_cast<unsigned>(std::atoi(seed)));
  body_ = &body;
  gridDim = config.gridDim;
  blockDim = config.blockDim;
  count_ = blockDim.x * blockDim.y * blockDim.z;
  while (threads_.size() < count_) add_thread();
  for (unsigned z = 0; z < gridDim.z; ++z) {
    for (unsigned y = 0; y < gridDim.y; ++y) {
      for (unsigned x = 0; x < gridDim.x; ++x) {
        blockIdx = {x, y, z};
        auto* shared = reinterpret_cast<std::byte*>(cuda::weir_shared);
        poison(shared, config.dynamicSmemBytes);
        make_redzone(shared + config.dynamicSmemBytes, redzone_bytes);
        run_block();
        check_redzone(shared + config.dynamicSmemBytes, redzone_bytes, "shared memory");
      }
    }
  }
}

void Device::run_block() {
  std::vector<unsigned> turns(count_);
  std::iota(turns.begin(), turns.end(), 0U);
  for (unsigned i = 0; i < count_; ++i) threads_[i].state = State::ready;
  for (;;) {
    bool moved = false;
    if (order_) std::shuffle(turns.begin(), turns.end(), *order_);
    for (const unsigned i : turns) {
      if (threads_[i].state != State::ready) continue;
      moved = true;
      running_ = &threads_[i];
      threadIdx = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
      starter_.switch_to(running_->fiber);
    }
    if (moved) continue;
    for (unsigned i = 0; i < count_; ++i) {
      if (threads_[i].state != State::ended) fail_stuck();
    }
    return;
  }
}

void Device::fail_stuck() {
  const Thread* waiting = nullptr;
  for (unsigned i = 0; i < count_; ++i) {
    const bool in_operation = threads_[i].state == State::in_operation;
    if (in_operation || (waiting == nullptr && threads_[i].state == State::at_barrier)) waiting = &threads_[i];
    if (in_operation) break;
  }
  if (waiting->state == State::at_barrier) {
    fail("the barrier at " + at(waiting->where) + " is reached by " + std::to_string(at_barrier_) + " of " +
         std::to_string(count_) + " threads" + in_block());
  }
  fail(std::string(waiting->operation) + " at " + at(waiting->where) + ": thread " + std::to_string(waiting->number) +
       " waits for lanes of its mask that do not take part" + in_block());
}

unsigned Device::pass_barrier(bool predicate, const Where& where) {
  running_->predicate = predicate;
  if (at_barrier_ > 0 && (barrier_.line() != where.line() || !same(barrier_.file_name(), where.file_name()))) {
    fail("threads of a block wait at different barriers, " + at(barrier_) + " and " + at(where) + in_block());
  }
  barrier_ = where;
  if (++at_barrier_ < count_) {
    wait(State::at_barrier, where);
    return running_->count;
  }
  at_barrier_ = 0;
  unsigned count = 0;
  for (unsigned i = 0; i < count_; ++i) count += threads_[i].predicate;
  for (unsigned i = 0; i < count_; ++i) {
    threads_[i].count = count;
    threads_[i].state = State::ready;
  }
  return count;
}

const Lanes& Device::meet(const char* operation, unsigned mask, std::uint64_t value, const Where& where) {
  Thread& self = *running_;
  const unsigned first = self.number / warpSize * warpSize;
  if ((mask >> (self.number - first) & 1) == 0) {
    fail(std::string(operation) + " at " + at(where) + ": the mask does not name the lane that calls" + in_block());
  }
  self.operation = operation;
  self.mask = mask;
  self.value = value;
  bool complete = true;
  for (unsigned lane = 0; lane < warpSize; ++lane) {
    if ((mask >> lane & 1) == 0 || first + lane == self.number) continue;
    if (first + lane >= count_ || threads_[first + lane].state == State::ended) {
      fail(std::string(operation) + " at " + at(where) + ": the mask names lane " + std::to_string(lane) +
           ", which has ended or never was" + in_block());
    }
    const Thread& other = threads_[first + lane];
    if (other.state != State::in_operation) {
      complete = false;
    } else if (!same(other.operation, operation) || other.mask != mask) {
      fail(std::string(operation) + " at " + at(where) + ": lane " + std::to_string(lane) + " takes part in " +
           other.operation + " at " + at(other.where) + ", or with another mask" + in_block());
    }
  }
  if (!complete) {
    wait(State::in_operation, where);
    return self.given;
  }
  for (unsigned lane = 0; lane < warpSize; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    Thread& to = threads_[first + lane];
    for (unsigned from = 0; from < warpSize; ++from) {
      if (mask >> from & 1) to.given[from] = threads_[first + from].value;
    }
    to.state = State::ready;
  }
  return self.given;
}

}  // namespace

unsigned lane() { return device.running().number % warpSize; }

void give_way() { device.give_way(); }

unsigned meet_block(bool predicate, const Where& where) { return device.pass_barrier(predicate, where); }

const Lanes& meet_lanes(const char* operation, unsigned mask, std::uint64_t value, const Where& where) {
  return device.meet(operation, mask, value, where);
}

void fail_source(const char* operation, const Where& where) {
  fail(std::string(operation) + " at " + at(where) + ": a lane reads from one that the mask does not name" +
       in_block());
}

cudaError_t run(const cudaLaunchConfig_t& config, const std::function<void()>& thread) {
  const dim3& block = config.blockDim;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  const bool has_blocks = config.gridDim.x > 0 && config.gridDim.y > 0 && config.gridDim.z > 0;
  if (threads == 0 || threads > threads_max || !has_blocks || config.dynamicSmemBytes > shared_max) {
    return cudaErrorInvalidConfiguration;
  }
  if (const cudaError_t found = look_for_kernels(); found != cudaSuccess) return found;
  count_launch();
  enqueue(config.stream, [config, thread] {
    device.run(config, thread);
    return true;
  });
  return cudaSuccess;
}

}  // namespace weir::emulator
