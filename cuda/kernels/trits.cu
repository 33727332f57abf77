#include "cuda/kernels/trits.hpp"

#include "cuda/kernels/device.cuh"
#include "cuda/kernels/random.cuh"
#include "cuda/kernels/runs.cuh"
#include "cuda/launch.cuh"

namespace weir::cuda {
namespace {

constexpr unsigned size_block = 4096;

constexpr unsigned trits_of_byte = 5;
constexpr unsigned trit_block = trits_of_byte * random_group;
constexpr unsigned block_bytes = random_group;

/// A team takes a block of size_block entries.
__global__ void size_kernel(const float* __restrict__ values, std::uint64_t n, Size* __restrict__ parts) {
  const std::uint64_t blocks = (n + size_block - 1) / size_block;
  for (std::uint64_t first = warp_of_grid() * teams_of_warp; first < blocks; first += warps_of_grid() * teams_of_warp) {
    const std::uint64_t block = first + team_of_warp();
    const std::uint64_t start = block * size_block;
    const unsigned size = start < n ? at_most(n - start, size_block) : 0;
    std::uint32_t largest = 0;
    double squares = 0;
#pragma unroll 8
    for (unsigned i = lane_of_team(); i < size; i += team_lanes) {
      const float x = values[start + i];
      largest = magnitude(x) > largest ? magnitude(x) : largest;
      squares += static_cast<double>(x) * x;
    }
    squares = sum_in_order(squares);
    for (unsigned with = 1; with < team_lanes; with *= 2) {
      const std::uint32_t other = __shfl_xor_sync(all_lanes, largest, static_cast<int>(with));
      largest = other > largest ? other : largest;
    }
    if (lane_of_team() == 0 && block < blocks) parts[block] = {largest, 0, squares};
  }
}

/// One block.
__global__ void __launch_bounds__(runs_threads, 1)
    add_sizes_kernel(const Size* __restrict__ parts, std::uint64_t blocks, Size* size) {
  const Size all = sum_of_runs(parts, blocks, [](Size& to, const Size& from) {
    to.magnitude = from.magnitude > to.magnitude ? from.magnitude : to.magnitude;
    to.squares += from.squares;
  });
  if (threadIdx.x == 0) *size = all;
}

__global__ void limit_kernel(const Size* size, std::uint64_t n, double clip, TritScale* scale, Report* report) {
  const float largest = __uint_as_float(size->magnitude);
  const double clipped = clip * sqrt(size->squares / static_cast<double>(n));
  const float limit = clip > 0 && n > 0 && clipped < largest ? static_cast<float>(clipped) : largest;
  *scale = {limit, limit};
  if (size->magnitude > report->largest) report->largest = size->magnitude;
}

__device__ unsigned trit_of(float x, std::uint32_t word, float limit, float divisor) {
  const float size = __uint_as_float(magnitude(x));
  const float chance = (size < limit ? size : limit) / divisor * 0x1p24F;
  if (unit24(word) < chance) return x < 0 ? 0 : 2;
  return 1;
}

/// Byte j of the code of a block, which begins at `start` and has `size` entries: those of j, j + stride, ...
__device__ unsigned byte_of(const float* values, std::uint64_t start, unsigned size, unsigned j, unsigned stride,
                            const RandomKey& key, float limit, float divisor) {
  unsigned joined = 0;
#pragma unroll 1
  for (unsigned part = trits_of_byte; part-- > 0;) {
    const unsigned i = j + part * stride;
    const unsigned trit = i < size ? trit_of(values[start + i], random_word(key, start + i), limit, divisor) : 0;
    joined = 3 * joined + trit;
  }
  return joined;
}

/// The trits of four values: `short_of` is below zero where the value is not taken for zero.
__device__ std::uint32_t trits_of(const std::uint32_t* value, const std::uint32_t* short_of) {
  const std::uint32_t negative = bytes_of<3>(value);
  const std::uint32_t taken = bytes_of<3>(short_of);
  return (taken & ~negative & 0x80808080U) >> 6 | (~taken & 0x80808080U) >> 7;
}

/// As many as have registers for a block's values in each thread.
constexpr unsigned write_blocks = 3;

/// A team takes a block. Byte j of its code has the entries j, j + 64, ..., which are of one lane.
__global__ void __launch_bounds__(shape_threads, write_blocks)
    write_trits_kernel(const float* __restrict__ values, std::uint64_t n, RandomKey key,
                       const TritScale* __restrict__ given, std::byte* __restrict__ code) {
  const TritScale scale = *given;
  const float divisor = scale.scale > 0 ? scale.scale : 1;
  // A quotient is known up to four units of 2^-24 by the reciprocal and 23 random bits. Where that does not decide, the
  // quotient itself does.
  const float reciprocal = 1 / divisor;
  const float error = divisor >= 0x1p-100F && divisor <= 0x1p100F ? 0x1p-21F : largest_float;
  std::byte* const bytes = code + sizeof(float);
  if (thread_of_grid() == 0) store_f32(scale.scale, code);
  const unsigned lane = lane_of_team();
  const std::uint64_t whole = n / trit_block;
  for (std::uint64_t first = warp_of_grid() * teams_of_warp; first < whole; first += warps_of_grid() * teams_of_warp) {
    // A team without a block takes the last one again.
    const std::uint64_t block = first + team_of_warp() < whole ? first + team_of_warp() : whole - 1;
    const std::uint64_t start = block * trit_block;
    float x[trits_of_byte][8];
#pragma unroll
    for (unsigned part = 0; part < trits_of_byte; ++part) {
#pragma unroll
      for (unsigned k = 0; k < 8; ++k) x[part][k] = values[start + part * random_group + 8 * k + lane];
    }
    float nearest = 1;
    std::uint32_t low = 0;
    std::uint32_t high = 0;
#pragma unroll
    for (unsigned part = trits_of_byte; part-- > 0;) {
      const Philox::Block words = random_block(key, (start / random_group + part) * random_lanes + lane);
      std::uint32_t value[8];
      std::uint32_t short_of[8];
#pragma unroll
      for (unsigned k = 0; k < 8; ++k) {
        // 1 more than the random number.
        const float above = __uint_as_float(word_of(words, k) >> 9 | 0x3F800000U);
        const float distance = fmaf(-fminf(fabsf(x[part][k]), scale.limit), reciprocal, above - 1);
        nearest = fminf(nearest, fabsf(distance));
        value[k] = __float_as_uint(x[part][k]);
        short_of[k] = __float_as_uint(distance);
      }
      low = 3 * low + trits_of(value, short_of);  // in each byte: 242 at most
      high = 3 * high + trits_of(value + 4, short_of + 4);
    }
    std::uint64_t joined = std::uint64_t{high} << 32 | low;
    if (nearest <= error) {
      joined = 0;
#pragma unroll 1
      for (unsigned k = 0; k < 8; ++k) {
        const unsigned byte = byte_of(values, start, trit_block, 8 * k + lane, random_group, key, scale.limit, divisor);
        joined |= std::uint64_t{byte} << 8 * k;
      }
    }
    joined = transpose_bytes(joined);
    if (first + teams_of_warp <= whole) {
      store_words(joined, bytes + first * block_bytes);
    } else {
      store_word(joined, bytes + block * block_bytes + 8 * lane, 8);
    }
  }
  // What is left is a block with another stride: the last warp's lanes take its bytes.
  if (warp_of_grid() + 1 != warps_of_grid()) return;
  const std::uint64_t start = whole * trit_block;
  const auto left = static_cast<unsigned>(n - start);
  const unsigned stride = (left + trits_of_byte - 1) / trits_of_byte;
  for (unsigned j = lane_of_thread(); j < stride; j += warp_lanes) {
    bytes[whole * block_bytes + j] =
        static_cast<std::byte>(byte_of(values, start, left, j, stride, key, scale.limit, divisor));
  }
}

/// A thread takes a byte, so that those of a warp go over consecutive entries five times.
__global__ void add_trits_kernel(const std::byte* __restrict__ code, std::uint64_t n, float weight,
                                 float* __restrict__ sum) {
  const float step = weight * load_f32(code);
  const std::byte* const bytes = code + sizeof(float);
  const std::uint64_t whole = n / trit_block;
  const auto left = static_cast<unsigned>(n - whole * trit_block);
  const unsigned last_stride = (left + trits_of_byte - 1) / trits_of_byte;
  const std::uint64_t all = whole * block_bytes + last_stride;
  for (std::uint64_t i = thread_of_grid(); i < all; i += threads_of_grid()) {
    const std::uint64_t block = i / block_bytes;
    const unsigned stride = block < whole ? block_bytes : last_stride;
    const std::uint64_t first = block * trit_block + i % block_bytes;
    auto rest = static_cast<unsigned>(bytes[i]);
    float x[trits_of_byte];
#pragma unroll
    for (unsigned k = 0; k < trits_of_byte; ++k) x[k] = first + k * stride < n ? sum[first + k * stride] : 0.0F;
#pragma unroll
    for (unsigned k = 0; k < trits_of_byte; ++k) {
      const float trit = static_cast<float>(static_cast<int>(rest % 3) - 1);
      if (first + k * stride < n) sum[first + k * stride] = x[k] + step * trit;
      rest /= 3;
    }
  }
}

}  // namespace

Result<void> size_of(const float* values, std::uint64_t n, Size* parts, Size* size, StreamHandle stream) {
  if (n > 0) {
    const auto found = launch("size_of", size_kernel, shape_for(n, size_block / team_lanes), stream, values, n, parts);
    if (!found) return found;
  }
  return launch("size_of (total)", add_sizes_kernel, shape_for_runs<Size>(), stream, parts, size_parts(n), size);
}

Result<void> limit_of(const Size* size, std::uint64_t n, double clip, TritScale* scale, Report* report,
                      StreamHandle stream) {
  return launch("limit_of", limit_kernel, {.blocks = 1, .threads = 1}, stream, size, n, clip, scale, report);
}

Result<void> write_trits(const float* values, std::uint64_t n, const RandomKey& key, const TritScale* scale,
                         std::byte* code, StreamHandle stream) {
  if (n == 0) return {};
  return launch("write_trits", write_trits_kernel, shape_for(n, trits_of_byte * 8, write_blocks), stream, values, n,
                key, scale, code);
}

Result<void> add_trits(const std::byte* code, std::uint64_t n, float weight, float* sum, StreamHandle stream) {
  if (n == 0) return {};
  return launch("add_trits", add_trits_kernel, shape_for(n, trits_of_byte), stream, code, n, weight, sum);
}

}  // namespace weir::cuda
