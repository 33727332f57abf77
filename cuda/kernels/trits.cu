#include "cuda/kernels/trits.hpp"

#include "cuda/kernels/device.cuh"
#include "cuda/kernels/random.cuh"
#include "cuda/launch.cuh"

namespace weir::cuda {
namespace {

constexpr unsigned size_block = 4096;
constexpr unsigned size_run = 64;  // blocks

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

__device__ void add(Size& to, const Size& from) {
  to.magnitude = from.magnitude > to.magnitude ? from.magnitude : to.magnitude;
  to.squares += from.squares;
}

/// One block. Its threads add up a run of parts each, and write the sum over the first part of the run.
__global__ void add_sizes_kernel(Size* parts, std::uint64_t blocks, Size* size) {
  const std::uint64_t runs = (blocks + size_run - 1) / size_run;
  for (std::uint64_t run = threadIdx.x; run < runs; run += blockDim.x) {
    Size sum;
    for (std::uint64_t i = run * size_run; i < blocks && i < (run + 1) * size_run; ++i) add(sum, parts[i]);
    parts[run * size_run] = sum;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  Size all;
  for (std::uint64_t run = 0; run < runs; ++run) add(all, parts[run * size_run]);
  *size = all;
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

/// A team takes a block. Byte j of its code has the entries j, j + 64, ..., which are of one lane.
__global__ void write_trits_kernel(const float* __restrict__ values, std::uint64_t n, RandomKey key,
                                   const TritScale* __restrict__ given, std::byte* __restrict__ code) {
  const TritScale scale = *given;
  const float divisor = scale.scale > 0 ? scale.scale : 1;
  std::byte* const bytes = code + sizeof(float);
  if (thread_of_grid() == 0) store_f32(scale.scale, code);
  const unsigned lane = lane_of_team();
  const std::uint64_t whole = n / trit_block;
  for (std::uint64_t first = warp_of_grid() * teams_of_warp; first < whole; first += warps_of_grid() * teams_of_warp) {
    const std::uint64_t block = first + team_of_warp();
    const std::uint64_t start = block * trit_block;
    std::uint64_t joined = 0;
    for (unsigned part = trits_of_byte; part-- > 0;) {
      const std::uint64_t at = start + part * random_group;
      const Philox::Block words = random_block(key, at / random_group * random_lanes + lane);
      std::uint64_t trits = 0;
#pragma unroll
      for (unsigned k = 0; k < 8; ++k) {
        const float x = block < whole ? values[at + 8 * k + lane] : 0.0F;
        trits |= std::uint64_t{trit_of(x, word_of(words, k), scale.limit, divisor)} << 8 * k;
      }
      joined = 3 * joined + trits;  // in each byte: 242 at most
    }
    joined = transpose_bytes(joined);
    if (block < whole) store_word(joined, bytes + block * block_bytes + 8 * lane, 8);
  }
  // What is left is a block with another stride: the last warp's lanes take its bytes.
  if (warp_of_grid() + 1 != warps_of_grid()) return;
  const std::uint64_t start = whole * trit_block;
  const auto left = static_cast<unsigned>(n - start);
  const unsigned stride = (left + trits_of_byte - 1) / trits_of_byte;
  for (unsigned j = lane_of_thread(); j < stride; j += warp_lanes) {
    unsigned joined = 0;
    for (unsigned part = trits_of_byte; part-- > 0;) {
      const unsigned i = j + part * stride;
      const unsigned trit =
          i < left ? trit_of(values[start + i], random_word(key, start + i), scale.limit, divisor) : 0;
      joined = 3 * joined + trit;
    }
    bytes[whole * block_bytes + j] = static_cast<std::byte>(joined);
  }
}

/// A thread takes a byte, so that those of a warp go over consecutive entries five times.
__global__ void add_trits_kernel(const std::byte* __restrict__ code, std::uint64_t n, float weight,
                                 float* __restrict__ sum, Report* report) {
  const float scale = load_f32(code);
  const float step = weight * scale;
  const std::byte* const bytes = code + sizeof(float);
  const std::uint64_t whole = n / trit_block;
  const auto left = static_cast<unsigned>(n - whole * trit_block);
  const unsigned last_stride = (left + trits_of_byte - 1) / trits_of_byte;
  const std::uint64_t all = whole * block_bytes + last_stride;
  bool bad = !is_scale(scale);
  for (std::uint64_t i = thread_of_grid(); i < all; i += threads_of_grid()) {
    const std::uint64_t block = i / block_bytes;
    const unsigned stride = block < whole ? block_bytes : last_stride;
    const std::uint64_t first = block * trit_block + i % block_bytes;
    auto rest = static_cast<unsigned>(bytes[i]);
    bad = bad || rest > 242;
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
  raise(&report->misfit, bad ? 1 : 0);
}

}  // namespace

Result<void> size_of(const float* values, std::uint64_t n, Size* parts, Size* size, StreamHandle stream) {
  if (n > 0) {
    const auto found = launch("size_of", size_kernel, shape_for(n, size_block / team_lanes), stream, values, n, parts);
    if (!found) return found;
  }
  return launch("size_of (total)", add_sizes_kernel, {.blocks = 1, .threads = 256}, stream, parts, size_parts(n), size);
}

Result<void> limit_of(const Size* size, std::uint64_t n, double clip, TritScale* scale, Report* report,
                      StreamHandle stream) {
  return launch("limit_of", limit_kernel, {.blocks = 1, .threads = 1}, stream, size, n, clip, scale, report);
}

Result<void> write_trits(const float* values, std::uint64_t n, const RandomKey& key, const TritScale* scale,
                         std::byte* code, StreamHandle stream) {
  if (n == 0) return {};
  return launch("write_trits", write_trits_kernel, shape_for(n, trits_of_byte * 8), stream, values, n, key, scale,
                code);
}

Result<void> add_trits(const std::byte* code, std::uint64_t n, float weight, float* sum, Report* report,
                       StreamHandle stream) {
  if (n == 0) return {};
  return launch("add_trits", add_trits_kernel, shape_for(n, trits_of_byte), stream, code, n, weight, sum, report);
}

}  // namespace weir::cuda
