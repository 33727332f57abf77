#include "cuda/event.hpp"

#include "cuda/check.cuh"

namespace weir::cuda {

Result<Event> Event::make() {
  CUevent_st* handle = nullptr;
  const auto made = check(cudaEventCreate(&handle), "making an event");
  if (!made) return made.error();
  return Event(handle);
}

Result<Event> Event::make_untimed() {
  CUevent_st* handle = nullptr;
  const auto made = check(cudaEventCreateWithFlags(&handle, cudaEventDisableTiming), "making an event");
  if (!made) return made.error();
  return Event(handle);
}

Event::~Event() {
  if (handle_ != nullptr) cudaEventDestroy(handle_);
}

Result<void> Event::record(StreamHandle stream) const {
  return check(cudaEventRecord(handle_, stream), "recording an event");
}

Result<bool> Event::reached() const {
  const cudaError_t answer = cudaEventQuery(handle_);
  if (answer == cudaErrorNotReady) return false;
  if (auto asked = check(answer, "asking for an event"); !asked) return asked.error();
  return true;
}

Result<void> Event::hold_back(StreamHandle stream) const {
  return check(cudaStreamWaitEvent(stream, handle_, 0), "having a stream wait for an event");
}

Result<void> Event::wait() const { return check(cudaEventSynchronize(handle_), "waiting for an event"); }

Result<float> Event::milliseconds_between(const Event& start, const Event& end) {
  float time = 0;
  const auto measured = check(cudaEventElapsedTime(&time, start.handle_, end.handle_), "measuring between events");
  if (!measured) return measured.error();
  return time;
}

}  // namespace weir::cuda
