// The streams and events of the emulated device. Work is done in the threads that ask for it: at once, as far as the
// work before it in the stream has been done, or, while a test defers it, when somebody asks for an event or waits.

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cuda/emulator/device_memory.hpp"
#include "tests/cuda/emulator/emulator.hpp"

namespace weir::emulator {
namespace {

/// Where the work of a stream ended when an event was recorded.
struct Point {
  CUstream_st* stream = nullptr;
  bool is_reached = false;
};

/// A piece of work, or that a stream waits for a point in another one's.
struct Work {
  std::function<bool()> attempt;
  std::shared_ptr<const Point> after;
};

}  // namespace
}  // namespace weir::emulator

struct CUstream_st {
  std::deque<weir::emulator::Work> work;
  std::uint64_t put = 0;   ///< pieces of work that were ever put into it
  std::uint64_t done = 0;  ///< of them
};

/// Null before it was recorded.
struct CUevent_st {
  std::shared_ptr<weir::emulator::Point> point;
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
  void put(CUstream_st* stream, Work work);
  bool advance(CUstream_st& stream);
  bool advance_what_needs(CUstream_st& stream);
  bool step(CUstream_st* wanted);

  std::vector<std::unique_ptr<CUstream_st>> all;  ///< the default one first, then by age
  bool deferred = false;
  Order first = Order::newest;
  std::mt19937 random{1};
};

Streams& streams() {
  static auto* const all = new Streams;  // work may outlive what ends with the program
  return *all;
}

thread_local std::uint64_t waits = 0;
std::atomic<std::uint64_t> launched = 0;
std::atomic<std::uint64_t> to_host = 0;
std::atomic<std::uint64_t> to_device = 0;

void Streams::put(CUstream_st* to, Work work) {
  CUstream_st& stream = of(to);
  stream.work.push_back(std::move(work));
  ++stream.put;
  if (deferred) return;
  while (advance(stream)) {
  }
}

/// Attempts the next piece of work.
bool Streams::advance(CUstream_st& stream) {
  if (stream.work.empty()) return false;
  const Work& next = stream.work.front();
  if (next.after) {
    if (!next.after->is_reached) return false;
  } else {
    const Access access;
    if (!next.attempt()) return false;
  }
  stream.work.pop_front();
  ++stream.done;
  return true;
}

/// Does a piece of work of this stream, or of the one that it waits for.
bool Streams::advance_what_needs(CUstream_st& stream) {
  if (stream.work.empty()) return false;
  const auto after = stream.work.front().after;
  return after && !after->is_reached ? advance_what_needs(*after->stream) : advance(stream);
}

/// Does a piece of work of one stream. `wanted`: somebody waits for this one; null: for something else.
bool Streams::step(CUstream_st* wanted) {
  if (first == Order::needed && wanted != nullptr) return advance_what_needs(*wanted);
  std::vector<CUstream_st*> turns;
  for (const auto& stream : all) turns.push_back(stream.get());
  if (first == Order::newest) std::reverse(turns.begin(), turns.end());
  if (first == Order::any) std::shuffle(turns.begin(), turns.end(), random);
  return std::any_of(turns.begin(), turns.end(), [this](CUstream_st* stream) { return advance(*stream); });
}

void work_until(const std::function<bool()>& done, CUstream_st* wanted) {
  for (;;) {
    {
      const std::lock_guard lock(device_mutex());
      if (done()) return;
      streams().step(wanted);
    }
    std::this_thread::yield();
  }
}

}  // namespace

void enqueue(CUstream_st* to, std::function<bool()> attempt) {
  const std::lock_guard lock(device_mutex());
  streams().put(to, {.attempt = std::move(attempt), .after = nullptr});
}

Deferred::Deferred(Order first) : was_deferred_(streams().deferred), first_before_(streams().first) {
  const std::lock_guard lock(device_mutex());
  streams().deferred = true;
  streams().first = first;
}

Deferred::~Deferred() {
  const std::lock_guard lock(device_mutex());
  while (streams().step(nullptr)) {
  }
  streams().deferred = was_deferred_;
  streams().first = first_before_;
}

bool defers() { return streams().deferred; }

std::uint64_t waits_of_this_thread() { return waits; }

std::uint64_t launches() { return launched; }
void count_launch() { ++launched; }

std::uint64_t bytes_to_host() { return to_host; }
std::uint64_t bytes_to_device() { return to_device; }
void count_to_host(std::size_t bytes) { to_host += bytes; }
void count_to_device(std::size_t bytes) { to_device += bytes; }

void wait_until(const std::function<bool()>& done) {
  ++waits;
  work_until(done, nullptr);
}

void catch_up(CUstream_st* of) {
  CUstream_st* stream = nullptr;
  std::uint64_t put = 0;
  {
    const std::lock_guard lock(device_mutex());
    stream = &streams().of(of);
    put = stream->put;
  }
  work_until([=] { return stream->done >= put; }, stream);
}

void drain(CUstream_st* of) {
  ++waits;
  catch_up(of);
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
  if (!asked.work.empty()) streams().step(&asked);
  return asked.work.empty() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::lock_guard lock(device_mutex());
  if (event->point) streams().put(stream, {.attempt = nullptr, .after = event->point});
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
  event->point = std::make_shared<weir::emulator::Point>(weir::emulator::Point{&streams().of(stream)});
  enqueue(stream, [point = event->point] { return point->is_reached = true; });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(device_mutex());
  if (!event->point || event->point->is_reached) return cudaSuccess;
  streams().step(event->point->stream);
  return event->point->is_reached ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  ++weir::emulator::waits;
  const auto point = event->point;
  if (point) weir::emulator::work_until([&] { return point->is_reached; }, point->stream);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 0;  // its speed says nothing
  return cudaSuccess;
}
