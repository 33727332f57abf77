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

/// Blocks that work on something together, numbered from 0: those of a grid, or some of them (batch.cuh). For its
/// threads and warps, their number among all of these blocks', and how many there are.
struct GridPart {
  unsigned block;
  unsigned count;

  __device__ std::uint64_t thread() const { return std::uint64_t{block} * blockDim.x + threadIdx.x; }
  __device__ std::uint64_t threads() const { return std::uint64_t{count} * blockDim.x; }
  __device__ std::uint64_t warp() const { return thread() / warp_lanes; }
  __device__ std::uint64_t warps() const { return threads() / warp_lanes; }
};

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

/// For load_word() and store_word(): false where the bytes are not whole aligned parts.
template <class Part, class Word>
__device__ bool load_parts(const std::byte* from, unsigned count, Word& word) {
  if (count % sizeof(Part) != 0 || !is_aligned<Part>(from)) return false;
  for (unsigned at = 0; at < count; at += sizeof(Part)) {
    word |= static_cast<Word>(*reinterpret_cast<const Part*>(from + at)) << 8 * at;
  }
  return true;
}
template <class Part, class Word>
__device__ bool store_parts(Word word, std::byte* to, unsigned count) {
  if (count % sizeof(Part) != 0 || !is_aligned<Part>(to)) return false;
#pragma unroll 1  // or kernels that seldom come here need more registers
  for (unsigned at = 0; at < count; at += sizeof(Part)) {
    *reinterpret_cast<Part*>(to + at) = static_cast<Part>(word >> 8 * at);
  }
  return true;
}

/// `count` (up to 8) bytes at any address, the first the lowest: one access where it is aligned and they are as many as
/// a word has, else the fewest of one width.
template <class Word>
__device__ Word load_word(const std::byte* from, unsigned count) {
  if (count == sizeof(Word) && is_aligned<Word>(from)) return *reinterpret_cast<const Word*>(from);
  Word word = 0;
  if (load_parts<std::uint32_t>(from, count, word) || load_parts<std::uint16_t>(from, count, word)) return word;
  load_parts<std::uint8_t>(from, count, word);
  return word;
}
template <class Word>
__device__ void store_word(Word word, std::byte* to, unsigned count) {
  if (count == sizeof(Word) && is_aligned<Word>(to)) {
    *reinterpret_cast<Word*>(to) = word;
    return;
  }
  if (store_parts<std::uint32_t>(word, to, count) || store_parts<std::uint16_t>(word, to, count)) return;
  store_parts<std::uint8_t>(word, to, count);
}

/// Stores the words of a warp's lanes, one behind the other, at any address. All lanes of the warp take part.
template <class Word>
__device__ void store_words(Word word, std::byte* to) {
  const unsigned lane = lane_of_thread();
  const auto skew = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(to) % sizeof(Word));
  auto* const words = reinterpret_cast<Word*>(to - skew);
  if (skew == 0) {
    words[lane] = word;
    return;
  }
  // An aligned word has the end of a lane's word and the start of the next one's. That of lane 0 has the last bytes of
  // all, and the first: they are stored one by one.
  const Word before = __shfl_sync(all_lanes, word, static_cast<int>((lane + warp_lanes - 1) % warp_lanes));
  const auto joined = static_cast<Word>(before >> 8 * (sizeof(Word) - skew) | word << 8 * skew);
  if (lane > 0) words[lane] = joined;
  const Word ends = __shfl_sync(all_lanes, joined, 0);
  if (lane >= sizeof(Word)) return;
  std::byte* const place = to - skew + lane + (lane < skew ? sizeof(Word) * warp_lanes : 0);
  *place = static_cast<std::byte>(ends >> 8 * lane & 0xFF);
}

/// Byte `which` of each of four words.
template <unsigned which>
__device__ std::uint32_t bytes_of(const std::uint32_t* four) {
  constexpr unsigned of_two = which | (which + 4) << 4;
  return __byte_perm(__byte_perm(four[0], four[1], of_two), __byte_perm(four[2], four[3], of_two), 0x5410);
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

/// Rounds numbers that are known up to an error, and notes how far they were from their integers: where it was less
/// than a half by more than the error, the exact numbers have the same integers.
struct Rounding {
  /// The nearest integer, of a magnitude below 2^21, plus `offset`: its low bits are those of the result.
  __device__ std::uint32_t operator()(float number) {
    // After adding the shift, the last place of the float is 1.
    const float shifted = number + shift;
    farthest = fmaxf(farthest, fabsf(number - (shifted - shift)));
    return __float_as_uint(shifted);
  }
  __device__ bool is_sure(float error) const { return farthest < 0.5F - error; }

  __device__ explicit Rounding(std::int32_t offset) : shift(0x1.8p23F + static_cast<float>(offset)) {}

  float shift;
  float farthest = 0;
};

// Teams: eight lanes, which take a group of 64 entries (random.cuh) or what is made of such groups. A warp has four.

inline constexpr unsigned team_lanes = 8;
inline constexpr unsigned teams_of_warp = warp_lanes / team_lanes;

__device__ inline unsigned team_of_warp() { return lane_of_thread() / team_lanes; }
__device__ inline unsigned lane_of_team() { return lane_of_thread() % team_lanes; }

/// Of bytes that the lanes of a team have, byte k of lane l being that of entry 8 * k + l, gives lane l those of the
/// entries 8 * l, 8 * l + 1, ... All lanes of the warp take part.
__device__ inline std::uint64_t transpose_bytes(std::uint64_t mine) {
  // The lanes whose numbers differ in one bit exchange the bytes whose numbers differ from theirs in that bit: four.
  const unsigned lane = lane_of_thread();
  auto low = static_cast<std::uint32_t>(mine);
  auto high = static_cast<std::uint32_t>(mine >> 32);
  const bool odd = (lane & 1) != 0;
  std::uint32_t other = __shfl_xor_sync(all_lanes, __byte_perm(low, high, odd ? 0x6420 : 0x7531), 1);
  low = __byte_perm(low, other, odd ? 0x3514 : 0x5240);
  high = __byte_perm(high, other, odd ? 0x3716 : 0x7260);
  const bool second = (lane & 2) != 0;
  other = __shfl_xor_sync(all_lanes, __byte_perm(low, high, second ? 0x5410 : 0x7632), 2);
  low = __byte_perm(low, other, second ? 0x3254 : 0x5410);
  high = __byte_perm(high, other, second ? 0x3276 : 0x7610);
  const bool upper = (lane & 4) != 0;
  other = __shfl_xor_sync(all_lanes, upper ? low : high, 4);
  return upper ? std::uint64_t{high} << 32 | other : std::uint64_t{other} << 32 | low;
}

/// Calls visit(x, base) for the eight entries base + lane, base + 8 + lane, ... of the calling lane, for every base of
/// the first `longest` entries at `values`, of which there are `size`: zeros stand for the others. The next ones are
/// on their way meanwhile: few teams are at work at a time where each takes a whole block.
template <class Visit>
__device__ void for_entries_of_lane(const float* __restrict__ values, unsigned size, unsigned longest, Visit&& visit) {
  constexpr unsigned count = 8;
  const unsigned lane = lane_of_team();
  float x[count];
#pragma unroll
  for (unsigned k = 0; k < count; ++k) x[k] = team_lanes * k + lane < size ? values[team_lanes * k + lane] : 0.0F;
#pragma unroll 1
  for (unsigned base = 0; base < longest; base += team_lanes * count) {
    float next[count];
#pragma unroll
    for (unsigned k = 0; k < count; ++k) {
      const unsigned i = base + team_lanes * (count + k) + lane;
      next[k] = i < size ? values[i] : 0.0F;
    }
    visit(x, base);
#pragma unroll
    for (unsigned k = 0; k < count; ++k) x[k] = next[k];
  }
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
