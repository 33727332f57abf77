#pragma once

// A CUDA device in software, for tests: with this file instead of CUDA's of the same name, a C++ compiler compiles
// cuda/, and kernels run on the CPU. Blocks run one after the other, in their order. The threads of a block are fibers
// (emulator.cpp), which take turns where they wait for each other; everything else is done at once, streams included,
// unless a test defers it (emulator.hpp).
//
// What a device would punish, or not notice, ends the process with a sentence:
//   - a barrier that not all threads of the block reach, or that they reach at different places
//   - a warp operation whose named lanes do not all take part
//   - writing beyond shared memory or, seen when it is freed, beyond an allocation; with AddressSanitizer any access
//   - copies between host and device that leave an allocation or have the wrong direction
// Shared memory and new allocations hold NaN. With WEIR_CUDA_ORDER=SEED in the environment, the threads between two
// barriers run in random order instead of that of their numbers, which shows barriers that are missing. The device is
// older than every kernel with WEIR_EMULATED_GPU_CAPABILITY=75, say, and its driver with WEIR_EMULATED_DRIVER=12020.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <tuple>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __shared__  // only `extern` arrays of cuda/kernels/device.cuh, which the emulator defines

struct uint3 {
  unsigned x, y, z;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) ulonglong2 {
  unsigned long long x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

// Of the thread that runs.
extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;
inline constexpr int warpSize = 32;

struct CUstream_st;
struct CUevent_st;
using cudaStream_t = CUstream_st*;
using cudaEvent_t = CUevent_st*;
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInvalidDevice = 101,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorNotReady = 600,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault,
};
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
};
inline constexpr unsigned cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDisableTiming = 2;
struct cudaLaunchAttribute;
struct cudaFuncAttributes {};
struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};

namespace weir::emulator {

using Where = std::source_location;

/// The values that the lanes of a warp gave to an operation; those not named gave none.
using Lanes = std::uint64_t[warpSize];

/// Gives `value` and waits until all lanes of `mask` have given theirs to the same operation.
const Lanes& meet_lanes(const char* operation, unsigned mask, std::uint64_t value, const Where& where);

/// Waits until all threads of the block have come here. Returns how many came with `predicate`.
unsigned meet_block(bool predicate, const Where& where);

/// Fails: a lane reads from one that the mask does not name.
[[noreturn]] void fail_source(const char* operation, const Where& where);

/// Lets the others run.
void give_way();

unsigned lane();
cudaError_t run(const cudaLaunchConfig_t& config, const std::function<void()>& thread);
cudaError_t allocate(void** at, std::size_t bytes);

/// Whether there are kernels for the device.
cudaError_t look_for_kernels();

template <class T>
concept Int32 = std::is_same_v<T, int> || std::is_same_v<T, unsigned>;

template <class T>
std::uint64_t to_word(T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "lanes exchange 4 or 8 bytes");
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof value);
  return word;
}

template <class T>
T from_word(std::uint64_t word) {
  T value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

/// What lane `from` of this lane's segment of `width` lanes gave; its own value if that is outside (`inside` is false).
template <class T>
T shuffle(const char* operation, unsigned mask, T value, int from, bool inside, const Where& where) {
  const unsigned source = inside ? static_cast<unsigned>(from) % warpSize : lane();
  if ((mask >> source & 1) == 0) fail_source(operation, where);
  return from_word<T>(meet_lanes(operation, mask, to_word(value), where)[source]);
}

template <class T, class Combine>
T reduce(const char* operation, unsigned mask, T value, const Combine& combine, const Where& where) {
  const Lanes& lanes = meet_lanes(operation, mask, to_word(value), where);
  for (unsigned other = 0; other < warpSize; ++other) {
    if (other != lane() && mask >> other & 1) value = combine(value, from_word<T>(lanes[other]));
  }
  return value;
}

}  // namespace weir::emulator

// Barriers and warp operations.

inline void __syncthreads(weir::emulator::Where where = weir::emulator::Where::current()) {
  weir::emulator::meet_block(false, where);
}
inline int __syncthreads_count(int predicate, weir::emulator::Where where = weir::emulator::Where::current()) {
  return static_cast<int>(weir::emulator::meet_block(predicate != 0, where));
}
inline int __syncthreads_or(int predicate, weir::emulator::Where where = weir::emulator::Where::current()) {
  return weir::emulator::meet_block(predicate != 0, where) > 0;
}
inline int __syncthreads_and(int predicate, weir::emulator::Where where = weir::emulator::Where::current()) {
  return weir::emulator::meet_block(predicate == 0, where) == 0;
}
inline void __syncwarp(unsigned mask = ~0U, weir::emulator::Where where = weir::emulator::Where::current()) {
  weir::emulator::meet_lanes("__syncwarp", mask, 0, where);
}
inline void __nanosleep(unsigned) { weir::emulator::give_way(); }

template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = warpSize,
              weir::emulator::Where where = weir::emulator::Where::current()) {
  const int segment = static_cast<int>(weir::emulator::lane()) / width * width;
  return weir::emulator::shuffle("__shfl_sync", mask, value, segment + (from & (width - 1)), true, where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize,
                 weir::emulator::Where where = weir::emulator::Where::current()) {
  const int own = static_cast<int>(weir::emulator::lane());
  const int from = own - static_cast<int>(delta);
  return weir::emulator::shuffle("__shfl_up_sync", mask, value, from, from >= own / width * width, where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize,
                   weir::emulator::Where where = weir::emulator::Where::current()) {
  const int own = static_cast<int>(weir::emulator::lane());
  const int from = own + static_cast<int>(delta);
  return weir::emulator::shuffle("__shfl_down_sync", mask, value, from, from < (own / width + 1) * width, where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int with, int width = warpSize,
                  weir::emulator::Where where = weir::emulator::Where::current()) {
  const int own = static_cast<int>(weir::emulator::lane());
  const int from = own ^ with;
  return weir::emulator::shuffle("__shfl_xor_sync", mask, value, from, from < (own / width + 1) * width, where);
}
inline unsigned __ballot_sync(unsigned mask, int predicate,
                              weir::emulator::Where where = weir::emulator::Where::current()) {
  const auto mine = predicate != 0 ? 1U << weir::emulator::lane() : 0;
  return weir::emulator::reduce("__ballot_sync", mask, mine, std::bit_or<>(), where);
}
inline int __any_sync(unsigned mask, int predicate, weir::emulator::Where where = weir::emulator::Where::current()) {
  return __ballot_sync(mask, predicate, where) != 0;
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value, weir::emulator::Where where = weir::emulator::Where::current()) {
  const auto& lanes = weir::emulator::meet_lanes("__match_any_sync", mask, weir::emulator::to_word(value), where);
  unsigned same = 0;
  for (unsigned other = 0; other < warpSize; ++other) {
    if (mask >> other & 1 && lanes[other] == weir::emulator::to_word(value)) same |= 1U << other;
  }
  return same;
}
template <weir::emulator::Int32 T>
T __reduce_max_sync(unsigned mask, T value, weir::emulator::Where where = weir::emulator::Where::current()) {
  return weir::emulator::reduce(
      "__reduce_max_sync", mask, value, [](auto a, auto b) { return std::max(a, b); }, where);
}
template <weir::emulator::Int32 T>
T __reduce_min_sync(unsigned mask, T value, weir::emulator::Where where = weir::emulator::Where::current()) {
  return weir::emulator::reduce(
      "__reduce_min_sync", mask, value, [](auto a, auto b) { return std::min(a, b); }, where);
}
template <weir::emulator::Int32 T>
T __reduce_add_sync(unsigned mask, T value, weir::emulator::Where where = weir::emulator::Where::current()) {
  return weir::emulator::reduce("__reduce_add_sync", mask, value, std::plus<>(), where);
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value,
                                 weir::emulator::Where where = weir::emulator::Where::current()) {
  return weir::emulator::reduce("__reduce_or_sync", mask, value, std::bit_or<>(), where);
}

// Atomics: a thread runs until it waits, so nothing comes between.

template <class T>
concept AtomicNumber = std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8);
template <AtomicNumber T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  return std::exchange(*at, *at + value);
}
template <AtomicNumber T>
T atomicMax(T* at, std::type_identity_t<T> value) {
  return std::exchange(*at, std::max(*at, value));
}
template <AtomicNumber T>
T atomicMin(T* at, std::type_identity_t<T> value) {
  return std::exchange(*at, std::min(*at, value));
}
template <AtomicNumber T>
T atomicOr(T* at, std::type_identity_t<T> value) {
  return std::exchange(*at, *at | value);
}

// Intrinsics.

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const std::uint64_t bytes = std::uint64_t{y} << 32 | x;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    result |= static_cast<unsigned>(bytes >> 8 * (selector >> 4 * i & 7) & 0xFF) << 8 * i;
  }
  return result;
}

// The runtime.

cudaError_t cudaGetLastError();
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
template <class Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, Kernel*) {
  return weir::emulator::look_for_kernels();
}
template <class T>
cudaError_t cudaMalloc(T** at, std::size_t bytes) {
  return weir::emulator::allocate(reinterpret_cast<void**>(at), bytes);
}
cudaError_t cudaFree(void* at);
cudaError_t cudaMallocHost(void** at, std::size_t bytes);
cudaError_t cudaFreeHost(void* at);
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemset(void* at, int value, std::size_t bytes);
cudaError_t cudaMemsetAsync(void* at, int value, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end);

/// Runs the kernel to its end, when its turn comes in the stream.
template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  const std::tuple<Parameters...> values(std::forward<Arguments>(arguments)...);
  return weir::emulator::run(*config, [kernel, values] { std::apply(kernel, values); });
}
