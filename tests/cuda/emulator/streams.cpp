// The streams and events of the emulated device. Work is done in the threads that ask for it: at once, as far as the
// work before it in the stream has been done, or, while a test defers it, when somebody asks for an event or waits.

#include <cuda_runtime.h>

#include <deque>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "tests/cuda/emulator/emulator.hpp"

struct CUstream_st {
  std::deque<std::function<bool()>> work;
  std::uint64_t put = 0;   ///< pieces of work that were ever put into it
  std::uint64_t done = 0;  ///< of them
};

/// Whether the point where the event was recorded last has been reached; null before that.
struct CUevent_st {
  std::shared_ptr<bool> reached;
};

namespace weir::emulator {

std::recursive_mutex& device_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

namespace {

struct Streams {
  Streams() { all.push_back(std::make_unique<CUstream_st>()); }

  CUstream_st& of(CUstream_st* stream) { return stream == nullptr ? *all.front() : *stream; }
  bool advance(CUstream_st& stream);
  bool step();

  std::vector<std::unique_ptr<CUstream_st>> all;  ///< the default one first, then by age
  bool deferred = false;
  Order first = Order::newest;
  std::mt19937 random{1};
};

Streams& streams() {
  static Streams all;
  return all;
}

thread_local std::uint64_t waits = 0;

/// Attempts the next piece of work.
bool Streams::advance(CUstream_st& stream) {
  if (stream.work.empty() || !stream.work.front()()) return false;
  stream.work.pop_front();
  ++stream.done;
  return true;
}

/// Does a piece of work of one stream.
bool Streams::step() {
  std::vector<CUstream_st*> turns;
  for (const auto& stream : all) turns.push_back(stream.get());
  if (first == Order::newest) std::reverse(turns.begin(), turns.end());
  if (first == Order::any) std::shuffle(turns.begin(), turns.end(), random);
  return std::any_of(turns.begin(), turns.end(), [this](CUstream_st* stream) { return advance(*stream); });
}

}  // namespace

void enqueue(CUstream_st* to, std::function<bool()> attempt) {
  const std::lock_guard lock(device_mutex());
  CUstream_st& stream = streams().of(to);
  stream.work.push_back(std::move(attempt));
  ++stream.put;
  if (streams().deferred) return;
  while (streams().advance(stream)) {
  }
}

Deferred::Deferred(Order first) {
  const std::lock_guard lock(device_mutex());
  streams().deferred = true;
  streams().first = first;
}

Deferred::~Deferred() {
  const std::lock_guard lock(device_mutex());
  streams().deferred = false;
  while (streams().step()) {
  }
}

bool defers() { return streams().deferred; }

std::uint64_t waits_of_this_thread() { return waits; }

void wait_until(const std::function<bool()>& done) {
  ++waits;
  for (;;) {
    {
      const std::lock_guard lock(device_mutex());
      if (done()) return;
      streams().step();
    }
    std::this_thread::yield();
  }
}

void drain(CUstream_st* of) {
  std::uint64_t put = 0;
  {
    const std::lock_guard lock(device_mutex());
    put = streams().of(of).put;
  }
  wait_until([=] { return streams().of(of).done >= put; });
}

}  // namespace weir::emulator

using weir::emulator::device_mutex;
using weir::emulator::enqueue;
using weir::emulator::streams;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const std::lock_guard lock(device_mutex());
  *stream = streams().all.emplace_back(std::make_unique<CUstream_st>()).get();
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(device_mutex());
  if (!stream->work.empty()) weir::emulator::fail("a stream is destroyed that has work to do");
  std::erase_if(streams().all, [stream](const auto& other) { return other.get() == stream; });
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  weir::emulator::drain(stream);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  weir::emulator::wait_until([] {
    const auto is_done = [](const auto& stream) { return stream->work.empty(); };
    return std::all_of(streams().all.begin(), streams().all.end(), is_done);
  });
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const std::lock_guard lock(device_mutex());
  CUstream_st& asked = streams().of(stream);
  if (!asked.work.empty()) streams().step();
  return asked.work.empty() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::lock_guard lock(device_mutex());
  if (event->reached) enqueue(stream, [reached = event->reached] { return *reached; });
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = std::make_unique<CUevent_st>().release();
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  std::unique_ptr<CUevent_st>{event};
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(device_mutex());
  event->reached = std::make_shared<bool>(false);
  enqueue(stream, [reached = event->reached] { return *reached = true; });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(device_mutex());
  if (!event->reached || *event->reached) return cudaSuccess;
  streams().step();
  return *event->reached ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  weir::emulator::wait_until([event] { return !event->reached || *event->reached; });
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 0;  // its speed says nothing
  return cudaSuccess;
}
