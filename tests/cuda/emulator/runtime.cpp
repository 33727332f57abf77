// The memory, streams and events of the emulated device.

#include <cuda_runtime.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "tests/cuda/emulator/emulator.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace weir::emulator {

void poison(void* at, std::size_t bytes) { std::memset(at, 0xFF, bytes); }

void make_redzone(void* at, std::size_t bytes) {
  std::memset(at, 0xA5, bytes);
#if defined(__SANITIZE_ADDRESS__)
  ASAN_POISON_MEMORY_REGION(at, bytes);
#endif
}

void check_redzone(void* at, std::size_t bytes, const std::string& of) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(at, bytes);
#endif
  const auto* marks = static_cast<const unsigned char*>(at);
  if (std::any_of(marks, marks + bytes, [](unsigned char mark) { return mark != 0xA5; })) {
    fail("something wrote beyond " + of);
  }
}

namespace {

/// The size of each allocation, by its address. An allocation lies between two redzones.
std::map<std::byte*, std::size_t>& allocations() {
  static std::map<std::byte*, std::size_t> all;
  return all;
}

/// Whether the bytes are of an allocation, none of them is. Fails if they leave one.
bool is_of_device(const void* at, std::size_t bytes, const std::string& what) {
  auto* const first = static_cast<std::byte*>(const_cast<void*>(at));
  auto next = allocations().upper_bound(first);
  if (next == allocations().begin()) return false;
  const auto [start, size] = *std::prev(next);
  if (first > start + size || (first == start + size && bytes > 0 && size > 0)) return false;
  if (bytes > size - static_cast<std::size_t>(first - start)) {
    fail(what + " of " + std::to_string(bytes) + " bytes leaves an allocation of " + std::to_string(size));
  }
  return true;
}

std::string allocation_of(std::size_t bytes) { return "an allocation of " + std::to_string(bytes) + " bytes"; }

}  // namespace

cudaError_t allocate(void** at, std::size_t bytes) {
  *at = nullptr;
  if (bytes == 0) return cudaSuccess;
  const std::size_t whole = (bytes + 2 * redzone_bytes + 255) / 256 * 256;
  auto* const place = static_cast<std::byte*>(std::aligned_alloc(256, whole));
  if (place == nullptr) return cudaErrorMemoryAllocation;
  std::byte* const start = place + redzone_bytes;
  make_redzone(place, redzone_bytes);
  poison(start, bytes);
  make_redzone(start + bytes, redzone_bytes);
  allocations()[start] = bytes;
  *at = start;
  return cudaSuccess;
}

}  // namespace weir::emulator

using weir::emulator::allocations;
using weir::emulator::fail;
using weir::emulator::is_of_device;
using weir::emulator::redzone_bytes;

cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
  }
  return "unknown error";
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidValue; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 1;  // few, so that blocks take several pieces of work
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }

cudaError_t cudaFree(void* at) {
  if (at == nullptr) return cudaSuccess;
  auto* const start = static_cast<std::byte*>(at);
  const auto found = allocations().find(start);
  if (found == allocations().end()) fail("memory is freed that is not the beginning of an allocation");
  const std::size_t size = found->second;
  weir::emulator::check_redzone(start - redzone_bytes, redzone_bytes,
                                "the beginning of " + weir::emulator::allocation_of(size));
  weir::emulator::check_redzone(start + size, redzone_bytes, "the end of " + weir::emulator::allocation_of(size));
  allocations().erase(found);
  std::free(start - redzone_bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeAsync(void* at, cudaStream_t) { return cudaFree(at); }
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0) return cudaSuccess;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (is_of_device(to, bytes, "a copy") != to_device || is_of_device(from, bytes, "a copy") != from_device) {
    fail("a copy's direction is not that of its addresses");
  }
  std::memmove(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
  return cudaMemcpy(to, from, bytes, kind);
}
cudaError_t cudaMemset(void* at, int value, std::size_t bytes) {
  if (bytes > 0 && !is_of_device(at, bytes, "a fill")) fail("a fill of memory that is not the device's");
  if (bytes > 0) std::memset(at, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* at, int value, std::size_t bytes, cudaStream_t) {
  return cudaMemset(at, value, bytes);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = std::make_unique<CUstream_st>().release();
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  std::unique_ptr<CUstream_st>{stream};
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = std::make_unique<CUevent_st>().release();
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  std::unique_ptr<CUevent_st>{event};
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 0;  // its speed says nothing
  return cudaSuccess;
}
