// The memory of the emulated device. streams.cpp has the streams and events.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/cuda/emulator/device_memory.hpp"
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

/// The size of each piece of pinned memory, by its address.
std::map<std::byte*, std::size_t>& pinned() {
  static std::map<std::byte*, std::size_t> all;
  return all;
}

bool is_pinned(const void* at) {
  auto* const first = static_cast<std::byte*>(const_cast<void*>(at));
  const auto next = pinned().upper_bound(first);
  if (next == pinned().begin()) return false;
  const auto [start, size] = *std::prev(next);
  return first < start + size;
}

/// A number in the environment.
int variable(const char* name, int usual) {
  const char* const value = std::getenv(name);
  return value == nullptr ? usual : std::atoi(value);
}

/// As one number: 90 is 9.0.
int capability() { return variable("WEIR_EMULATED_GPU_CAPABILITY", 90); }
int driver_version() { return variable("WEIR_EMULATED_DRIVER", 13000); }

std::string allocation_of(std::size_t bytes) { return "an allocation of " + std::to_string(bytes) + " bytes"; }

}  // namespace

cudaError_t look_for_kernels() { return capability() < 80 ? cudaErrorNoKernelImageForDevice : cudaSuccess; }

cudaError_t allocate(void** at, std::size_t bytes) {
  *at = nullptr;
  if (bytes == 0) return cudaSuccess;
  const std::lock_guard lock(device_mutex());
  std::byte* const place = DeviceMemory::get().allocate(bytes + 2 * redzone_bytes);
  if (place == nullptr) return cudaErrorMemoryAllocation;
  const Access access;
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
using weir::emulator::device_mutex;
using weir::emulator::fail;
using weir::emulator::is_of_device;
using weir::emulator::is_pinned;
using weir::emulator::pinned;
using weir::emulator::redzone_bytes;

cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorNoKernelImageForDevice: return "no kernel image is available for execution on the device";
    case cudaErrorNotReady: return "device not ready";
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
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount: *value = 1; break;  // few, so that blocks take several pieces of work
    case cudaDevAttrComputeCapabilityMajor: *value = weir::emulator::capability() / 10; break;
    case cudaDevAttrComputeCapabilityMinor: *value = weir::emulator::capability() % 10; break;
  }
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = weir::emulator::driver_version();
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaFree(void* at) {
  if (at == nullptr) return cudaSuccess;
  const std::lock_guard lock(device_mutex());
  auto* const start = static_cast<std::byte*>(at);
  const auto found = allocations().find(start);
  if (found == allocations().end()) fail("memory is freed that is not the beginning of an allocation");
  const std::size_t size = found->second;
  const weir::emulator::Access access;
  weir::emulator::check_redzone(start - redzone_bytes, redzone_bytes,
                                "the beginning of " + weir::emulator::allocation_of(size));
  weir::emulator::check_redzone(start + size, redzone_bytes, "the end of " + weir::emulator::allocation_of(size));
  allocations().erase(found);
  weir::emulator::DeviceMemory::get().free(start - redzone_bytes);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** at, std::size_t bytes) {
  *at = std::malloc(std::max<std::size_t>(bytes, 1));
  if (*at == nullptr) return cudaErrorMemoryAllocation;
  weir::emulator::poison(*at, bytes);
  const std::lock_guard lock(device_mutex());
  pinned()[static_cast<std::byte*>(*at)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* at) {
  if (at == nullptr) return cudaSuccess;
  const std::lock_guard lock(device_mutex());
  if (pinned().erase(static_cast<std::byte*>(at)) == 0) fail("memory is freed that is not pinned");
  std::free(at);
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t put = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return put == cudaSuccess ? cudaStreamSynchronize(nullptr) : put;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  std::unique_lock lock(device_mutex());
  const bool to_device = is_of_device(to, bytes, "a copy");
  const bool from_device = is_of_device(from, bytes, "a copy");
  const cudaMemcpyKind found = from_device ? (to_device ? cudaMemcpyDeviceToDevice : cudaMemcpyDeviceToHost)
                                           : (to_device ? cudaMemcpyHostToDevice : cudaMemcpyHostToHost);
  if (kind != cudaMemcpyDefault && kind != found) fail("a copy's direction is not that of its addresses");
  if (from_device && !to_device) weir::emulator::count_to_host(bytes);
  if (to_device && !from_device) weir::emulator::count_to_device(bytes);
  // As on a device: bytes of pageable memory are taken at once, and who wants them there has to wait.
  std::vector<std::byte> taken;
  const bool takes = weir::emulator::defers() && !from_device && !is_pinned(from);
  if (takes) taken.assign(static_cast<const std::byte*>(from), static_cast<const std::byte*>(from) + bytes);
  weir::emulator::enqueue(stream, [=, taken = std::move(taken)] {
    if (is_of_device(to, bytes, "a copy") != to_device || is_of_device(from, bytes, "a copy") != from_device) {
      fail("memory is freed before the copy that uses it has been done");
    }
    std::memmove(to, takes ? taken.data() : from, bytes);
    return true;
  });
  const bool waits = weir::emulator::defers() && !to_device && !is_pinned(to);
  lock.unlock();
  return waits ? cudaStreamSynchronize(stream) : cudaSuccess;
}
cudaError_t cudaMemset(void* at, int value, std::size_t bytes) {
  const cudaError_t put = cudaMemsetAsync(at, value, bytes, nullptr);
  return put == cudaSuccess ? cudaStreamSynchronize(nullptr) : put;
}
cudaError_t cudaMemsetAsync(void* at, int value, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  const std::lock_guard lock(device_mutex());
  if (!is_of_device(at, bytes, "a fill")) fail("a fill of memory that is not the device's");
  weir::emulator::enqueue(stream, [=] {
    if (!is_of_device(at, bytes, "a fill")) fail("memory is freed before the fill of it has been done");
    std::memset(at, value, bytes);
    return true;
  });
  return cudaSuccess;
}
