#include "cuda/kernels/trits.hpp"

#include "cuda/kernels/batch.cuh"
#include "cuda/kernels/device.cuh"
#include "cuda/kernels/random.cuh"
#include "cuda/kernels/runs.cuh"
#include "cuda/launch.cuh"

namespace weir::cuda {
namespace {

constexpr unsigned size_block = 4096;
constexpr unsigned size_blocks = 4;  // that a multiprocessor has registers for

constexpr unsigned trits_of_byte = 5;
constexpr unsigned trit_block = trits_of_byte * random_group;
constexpr unsigned block_bytes = random_group;

/// A team takes a block of size_block entries.
__global__ void __launch_bounds__(shape_threads, size_blocks) size_kernel(Batch<SizeToFind> batch) {
  const auto [of, grid] = batch.of_this_block();
  const std::uint64_t blocks = size_parts(of.n);
  for (std::uint64_t first = grid.warp() * teams_of_warp; first < blocks; first += grid.warps() * teams_of_warp) {
    const std::uint64_t block = first + team_of_warp();
    const std::uint64_t start = block * size_block;
    const unsigned size = start < of.n ? at_most(of.n - start, size_block) : 0;
    std::uint32_t largest = 0;
    double squares = 0;
    for_entries_of_lane(of.values + start, size, size, [&](const float* x, unsigned) {
#pragma unroll
      for (unsigned k = 0; k < 8; ++k) {
        largest = magnitude(x[k]) > largest ? magnitude(x[k]) : largest;
        squares += static_cast<double>(x[k]) * x[k];
      }
    });
    squares = sum_in_order(squares);
    for (unsigned with = 1; with < team_lanes; with *= 2) {
      const std::uint32_t other = __shfl_xor_sync(all_lanes, largest, static_cast<int>(with));
      largest = other > largest ? other : largest;
    }
    if (lane_of_team() == 0 && block < blocks) of.parts[block] = {largest, 0, squares};
  }
}

/// One block for each tensor.
__global__ void __launch_bounds__(runs_threads, 1) add_sizes_kernel(Batch<SizeToFind> batch) {
  const SizeToFind of = batch.of_this_block().tensor;
  const Size all = sum_of_runs(of.parts, size_parts(of.n), [](Size& to, const Size& from) {
    to.magnitude = from.magnitude > to.magnitude ? from.magnitude : to.magnitude;
    to.squares += from.squares;
  });
  if (threadIdx.x == 0) *of.size = all;
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
__global__ void __launch_bounds__(shape_threads, write_blocks) write_trits_kernel(Batch<TritsToWrite> batch) {
  const auto [of, blocks] = batch.of_this_block();
  const TritScale scale = of.scale;
  const float divisor = scale.scale > 0 ? scale.scale : 1;
  // A quotient is known up to four units of 2^-24 by the reciprocal and 23 random bits. Where that does not decide, the
  // quotient itself does.
  const float reciprocal = 1 / divisor;
  const float error = divisor >= 0x1p-100F && divisor <= 0x1p100F ? 0x1p-21F : largest_float;
  std::byte* const bytes = of.code + sizeof(float);
  if (blocks.thread() == 0) store_f32(scale.scale, of.code);
  const unsigned lane = lane_of_team();
  const std::uint64_t whole = of.n / trit_block;
  for (std::uint64_t first = blocks.warp() * teams_of_warp; first < whole; first += blocks.warps() * teams_of_warp) {
    // A team without a block takes the last one again.
    const std::uint64_t block = first + team_of_warp() < whole ? first + team_of_warp() : whole - 1;
    const std::uint64_t start = block * trit_block;
    float x[trits_of_byte][8];
#pragma unroll
    for (unsigned part = 0; part < trits_of_byte; ++part) {
#pragma unroll
      for (unsigned k = 0; k < 8; ++k) x[part][k] = of.values[start + part * random_group + 8 * k + lane];
    }
    float nearest = 1;
    std::uint32_t low = 0;
    std::uint32_t high = 0;
#pragma unroll
    for (unsigned part = trits_of_byte; part-- > 0;) {
      const Philox::Block words = random_block(of.key, (start / random_group + part) * random_lanes + lane);
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
        const unsigned byte =
            byte_of(of.values, start, trit_block, 8 * k + lane, random_group, of.key, scale.limit, divisor);
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
  if (blocks.warp() + 1 != blocks.warps()) return;
  const std::uint64_t start = whole * trit_block;
  const auto left = static_cast<unsigned>(of.n - start);
  const unsigned stride = (left + trits_of_byte - 1) / trits_of_byte;
  for (unsigned j = lane_of_thread(); j < stride; j += warp_lanes) {
    bytes[whole * block_bytes + j] =
        static_cast<std::byte>(byte_of(of.values, start, left, j, stride, of.key, scale.limit, divisor));
  }
}

/// A thread takes a byte, so that those of a warp go over consecutive entries five times.
__global__ void add_trits_kernel(Batch<CodeToAdd> batch) {
  const auto [of, blocks] = batch.of_this_block();
  const std::uint64_t n = of.n;
  float* const __restrict__ sum = of.sum;
  const float step = of.weight * load_f32(of.code);
  const std::byte* const __restrict__ bytes = of.code + sizeof(float);
  const std::uint64_t whole = n / trit_block;
  const auto left = static_cast<unsigned>(n - whole * trit_block);
  const unsigned last_stride = (left + trits_of_byte - 1) / trits_of_byte;
  const std::uint64_t all = whole * block_bytes + last_stride;
  for (std::uint64_t i = blocks.thread(); i < all; i += blocks.threads()) {
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

Result<void> find_sizes(std::span<const SizeToFind> tensors, StreamHandle stream) {
  const auto shape = [](const SizeToFind& of) { return shape_for(of.n, size_block / team_lanes, size_blocks); };
  const auto one_block = [](const SizeToFind&) { return shape_for_runs<Size>(); };
  auto found = launch_blocks("find_sizes", size_kernel, tensors, shape, stream);
  return found ? launch_blocks("find_sizes (total)", add_sizes_kernel, tensors, one_block, stream) : found;
}

Result<void> write_trits(std::span<const TritsToWrite> tensors, StreamHandle stream) {
  const auto shape = [](const TritsToWrite& of) { return shape_for(of.n, trits_of_byte * 8, write_blocks); };
  return launch_blocks("write_trits", write_trits_kernel, tensors, shape, stream);
}

Result<void> add_trits(std::span<const CodeToAdd> tensors, StreamHandle stream) {
  const auto shape = [](const CodeToAdd& of) { return shape_for(of.n, trits_of_byte); };
  return launch_blocks("add_trits", add_trits_kernel, tensors, shape, stream);
}

}  // namespace weir::cuda
