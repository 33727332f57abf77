#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "cuda/kernels/report.hpp"

namespace weir::cuda {

// What kernels share. Blocks are one-dimensional, and whole warps.

inline constexpr unsigned warp_lanes = 32;
inline constexpr unsigned all_lanes = ~0U;
inline constexpr float largest_float = 0x1.FFFFFEp127F;

__device__ inline unsigned lane_of_thread() { return threadIdx.x % warp_lanes; }

/// The number of this warp among all of the grid, and how many there are.
__device__ inline std::uint64_t warp_of_grid() {
  return (std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / warp_lanes;
}
__device__ inline std::uint64_t warps_of_grid() { return std::uint64_t{gridDim.x} * blockDim.x / warp_lanes; }

/// The memory that the threads of a block share, as many bytes as its launch says (Shape). Kernels have no other: the
/// emulator must know where it is.
template <class T>
__device__ T* shared_memory() {
  extern __shared__ uint4 weir_shared[];
  return reinterpret_cast<T*>(weir_shared);
}

__device__ inline std::uint32_t magnitude(float x) { return __float_as_uint(x) & 0x7FFFFFFFU; }

/// The number of this thread among all of the grid, and how many there are.
__device__ inline std::uint64_t thread_of_grid() { return std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline std::uint64_t threads_of_grid() { return std::uint64_t{gridDim.x} * blockDim.x; }

/// `entries`, but `most` if there are more.
__device__ inline unsigned at_most(std::uint64_t entries, unsigned most) {
  return entries < most ? static_cast<unsigned>(entries) : most;
}

template <class T>
__device__ bool is_aligned(const void* at) {
  return reinterpret_cast<std::uintptr_t>(at) % alignof(T) == 0;
}

struct Four {
  float x[4];
};

/// The first `count` of four floats at any float's address, the others zero: one load where it is aligned.
__device__ inline Four load_four(const float* from, unsigned count) {
  if (count == 4 && is_aligned<float4>(from)) {
    const float4 all = *reinterpret_cast<const float4*>(from);
    return {{all.x, all.y, all.z, all.w}};
  }
  Four four{};
  for (unsigned k = 0; k < 4; ++k) four.x[k] = k < count ? from[k] : 0.0F;
  return four;
}
__device__ inline void store_four(const Four& four, float* to, unsigned count) {
  if (count == 4 && is_aligned<float4>(to)) {
    *reinterpret_cast<float4*>(to) = make_float4(four.x[0], four.x[1], four.x[2], four.x[3]);
    return;
  }
  for (unsigned k = 0; k < 4; ++k) {
    if (k < count) to[k] = four.x[k];
  }
}

/// `count` (up to 8) bytes at any address, the first the lowest: one access (or two) where it is aligned and they are
/// as many as a word has.
template <class Word>
__device__ Word load_word(const std::byte* from, unsigned count) {
  if (count == sizeof(Word) && is_aligned<Word>(from)) return *reinterpret_cast<const Word*>(from);
  Word word = 0;
  for (unsigned k = 0; k < count; ++k) word |= static_cast<Word>(from[k]) << 8 * k;
  return word;
}
template <class Word>
__device__ void store_word(Word word, std::byte* to, unsigned count) {
  if (count == sizeof(Word) && is_aligned<Word>(to)) {
    *reinterpret_cast<Word*>(to) = word;
    return;
  }
  if (sizeof(Word) == 8 && count == 8 && is_aligned<std::uint32_t>(to)) {
    reinterpret_cast<std::uint32_t*>(to)[0] = static_cast<std::uint32_t>(word);
    reinterpret_cast<std::uint32_t*>(to)[1] = static_cast<std::uint32_t>(std::uint64_t{word} >> 32);
    return;
  }
  for (unsigned k = 0; k < count; ++k) to[k] = static_cast<std::byte>(word >> 8 * k & 0xFF);
}

__device__ inline float load_f32(const std::byte* from) { return __uint_as_float(load_word<std::uint32_t>(from, 4)); }
__device__ inline void store_f32(float value, std::byte* to) { store_word(__float_as_uint(value), to, 4); }

/// Raises `*place` to `value`. All lanes of the warp take part.
__device__ inline void raise(std::uint32_t* place, std::uint32_t value) {
  const std::uint32_t most = __reduce_max_sync(all_lanes, value);
  // Most warps find it high enough: thousands of atomics on one place would take longer than the kernel's end.
  if (lane_of_thread() == 0 && most > *static_cast<volatile std::uint32_t*>(place)) atomicMax(place, most);
}

/// unit_float() * 2^24, an integer (compressors/kernels/random/random.hpp).
__device__ inline float unit24(std::uint32_t word) { return static_cast<float>(static_cast<int>(word >> 8)); }

__device__ inline float finite(float value) {
  const float lowered = value < largest_float ? value : largest_float;
  return lowered > -largest_float ? lowered : -largest_float;
}

/// Whether a decoded scale is valid, as for the twins (compressors/quantizers/channels.hpp).
__device__ inline bool is_scale(float scale) { return scale >= 0 && scale <= largest_float; }

// Teams: eight lanes, which take a group of 64 entries (random.cuh) or what is made of such groups. A warp has four.

inline constexpr unsigned team_lanes = 8;
inline constexpr unsigned teams_of_warp = warp_lanes / team_lanes;

__device__ inline unsigned team_of_warp() { return lane_of_thread() / team_lanes; }
__device__ inline unsigned lane_of_team() { return lane_of_thread() % team_lanes; }

/// Of bytes that the lanes of a team have, byte k of lane l being that of entry 8 * k + l, gives lane l those of the
/// entries 8 * l, 8 * l + 1, ... All lanes of the warp take part.
__device__ inline std::uint64_t transpose_bytes(std::uint64_t mine) {
  // The lanes whose numbers differ in one bit exchange the bytes whose numbers differ from theirs in that bit.
#pragma unroll
  for (unsigned bit = 1; bit < team_lanes; bit *= 2) {
    const std::uint64_t low = bit == 1 ? 0x00FF00FF00FF00FFU : bit == 2 ? 0x0000FFFF0000FFFFU : 0x00000000FFFFFFFFU;
    const bool upper = (lane_of_thread() & bit) != 0;
    const std::uint64_t sent = upper ? mine & low : mine >> 8 * bit & low;
    const std::uint64_t received = __shfl_xor_sync(all_lanes, sent, static_cast<int>(bit));
    mine = upper ? (mine & ~low) | received : (mine & low) | received << 8 * bit;
  }
  return mine;
}

/// The sum over the lanes of a team, in their order; every lane has it. All lanes of the warp take part.
__device__ inline double sum_in_order(double mine) {
  double sum = 0;
  for (unsigned lane = 0; lane < team_lanes; ++lane) {
    sum += __shfl_sync(all_lanes, mine, static_cast<int>(lane), team_lanes);
  }
  return sum;
}

}  // namespace weir::cuda
