#include "cuda/kernels/natural.hpp"

#include "cuda/kernels/batch.cuh"
#include "cuda/kernels/device.cuh"
#include "cuda/kernels/random.cuh"
#include "cuda/launch.cuh"

namespace weir::cuda {
namespace {

constexpr int window_max = 151;
constexpr unsigned sample_size = 4096;
constexpr int room = 24;
constexpr unsigned write_blocks = 4;  // that a multiprocessor has registers for

/// A power of two as two factors, because it may be too large for one float or too small for a normal one.
struct PowerOfTwo {
  float first;
  float second;
};

__device__ PowerOfTwo power_of_two(int exponent) {
  const int first = exponent / 2;
  const int second = exponent - first;
  return {__int_as_float((first + 127) << 23), __int_as_float((second + 127) << 23)};
}

/// Twin of natural_window().
__device__ int window_of(std::uint32_t largest) {
  const int window = static_cast<int>(largest >> 23) + 1 - 127 + 23;
  return window > 0 ? window : 0;
}

__device__ int window_of_sample(const NaturalWindow& window, std::uint64_t n) {
  const int of_sample = window_of(window.sample) + (n > sample_size ? room : 0);
  return of_sample < window_max ? of_sample : window_max;
}

/// One block for each tensor.
__global__ void sample_kernel(Batch<NaturalToWrite> batch) {
  const NaturalToWrite of = batch.of_this_block().tensor;
  if (threadIdx.x == 0) *of.window = {};
  __syncthreads();
  std::uint32_t largest = 0;
  for (std::uint64_t i = threadIdx.x; i < of.n && i < sample_size; i += blockDim.x) {
    largest = magnitude(of.values[i]) > largest ? magnitude(of.values[i]) : largest;
  }
  raise(&of.window->sample, largest);
}

/// The codes of four scaled values after the carry: sign and exponent.
__device__ std::uint32_t codes_of(const std::uint32_t* carried) {
  // Two at a time, by their upper halves: the exponent's low seven bits, and the sign, which leaves out the eighth.
  constexpr std::uint32_t signs = 0x00800080;
  const std::uint32_t first = __byte_perm(carried[0], carried[1], 0x7632);
  const std::uint32_t second = __byte_perm(carried[2], carried[3], 0x7632);
  return __byte_perm((first >> 7 & ~signs) | (first >> 8 & signs), (second >> 7 & ~signs) | (second >> 8 & signs),
                     0x6420);
}

/// The eight entries of the calling lane, whose warp takes the four groups from the entry `start` on: every eighth of
/// its team's group. Those behind the last are zero, and none are if `whole`.
template <bool whole>
__device__ void load_groups(const float* __restrict__ values, std::uint64_t n, std::uint64_t start, float* x) {
  const std::uint64_t first = start + random_group * team_of_warp() + lane_of_team();
#pragma unroll
  for (unsigned k = 0; k < 8; ++k) x[k] = whole || first + 8 * k < n ? values[first + 8 * k] : 0.0F;
}

/// Codes these groups and returns the high bits. All lanes of the warp take part.
template <bool whole>
__device__ std::uint32_t write_groups(const float* x, std::uint64_t n, const RandomKey& key, std::uint64_t start,
                                      PowerOfTwo factor, std::byte* __restrict__ code, std::uint32_t& largest) {
  const std::uint64_t first = start + random_group * team_of_warp() + lane_of_team();
  const Philox::Block words = random_block(key, start / random_group * random_lanes + lane_of_thread());
  std::uint32_t high = 0;
  std::uint32_t carried[8];
#pragma unroll
  for (unsigned k = 0; k < 8; ++k) {
    largest = magnitude(x[k]) > largest ? magnitude(x[k]) : largest;
    const std::uint32_t scaled = __float_as_uint(x[k] * factor.first * factor.second);
    carried[k] = scaled + (word_of(words, k) >> 9);
    if (whole || first + 8 * k < n) high |= scaled | carried[k];
  }
  const std::uint64_t bytes = transpose_bytes(std::uint64_t{codes_of(carried + 4)} << 32 | codes_of(carried));
  std::byte* const codes = code + 1 + start;
  const unsigned at = 8 * lane_of_thread();
  if (whole) {
    store_words(bytes, codes);
  } else if (start + at < n) {
    store_word(bytes, codes + at, at_most(n - start - at, 8));
  }
  return high;
}

/// The first attempt, or, with `again`, the second with the window of the largest magnitude, if there must be one.
template <bool again>
__global__ void __launch_bounds__(shape_threads, write_blocks) write_natural_kernel(Batch<NaturalToWrite> batch) {
  const auto [of, blocks] = batch.of_this_block();
  // The same for all threads of the tensor: no kernel changes it now.
  if (again && (of.window->high & 0x40000000) == 0) return;
  const int exponent = again ? window_of(of.window->largest) : window_of_sample(*of.window, of.n);
  const PowerOfTwo factor = power_of_two(23 - (exponent < window_max ? exponent : window_max));
  std::uint32_t high = 0;
  std::uint32_t largest = 0;
  constexpr unsigned entries_of_warp = teams_of_warp * random_group;
  const std::uint64_t step = blocks.warps() * entries_of_warp;
  std::uint64_t start = blocks.warp() * entries_of_warp;
  float x[8] = {};
  if (start + entries_of_warp <= of.n) load_groups<true>(of.values, of.n, start, x);
#pragma unroll 1
  for (; start + entries_of_warp <= of.n; start += step) {
    float next[8] = {};  // on their way while these are coded
    if (start + step + entries_of_warp <= of.n) load_groups<true>(of.values, of.n, start + step, next);
    high |= write_groups<true>(x, of.n, of.key, start, factor, of.code, largest);
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) x[k] = next[k];
  }
  if (start < of.n) {
    load_groups<false>(of.values, of.n, start, x);
    high |= write_groups<false>(x, of.n, of.key, start, factor, of.code, largest);
  }
  if (blocks.thread() == 0) *of.code = static_cast<std::byte>(exponent);
  if (again) return;
  raise(&of.window->largest, largest);
  raise(&of.report->largest, largest);
  // Only this bit is asked for, so that a maximum serves.
  raise(&of.window->high, high & 0x40000000);
}

__global__ void add_natural_kernel(Batch<CodeToAdd> batch) {
  const auto [of, blocks] = batch.of_this_block();
  const std::byte* const __restrict__ code = of.code;
  float* const __restrict__ sum = of.sum;
  const PowerOfTwo factor = power_of_two(static_cast<int>(*code) - 23);
  for (std::uint64_t at = 4 * blocks.thread(); at < of.n; at += 4 * blocks.threads()) {
    const unsigned count = at_most(of.n - at, 4);
    const auto codes = load_word<std::uint32_t>(code + 1 + at, count);
    Four four = load_four(sum + at, count);
    for (unsigned k = 0; k < 4; ++k) {
      const std::uint32_t here = codes >> 8 * k & 0xFF;
      const float power = __uint_as_float((here & 0x7F) << 23) * factor.first * factor.second;
      const float bounded = power < largest_float ? power : largest_float;
      four.x[k] += of.weight * __uint_as_float(__float_as_uint(bounded) | (here & 0x80) << 24);
    }
    store_four(four, sum + at, count);
  }
}

}  // namespace

Result<void> write_natural(std::span<const NaturalToWrite> tensors, StreamHandle stream) {
  const auto one_block = [](const NaturalToWrite&) { return Shape{.blocks = 1, .threads = shape_threads}; };
  const auto shape = [](const NaturalToWrite& of) { return shape_for(of.n, 8, write_blocks); };
  auto done = launch_blocks("write_natural (sample)", sample_kernel, tensors, one_block, stream);
  if (done) done = launch_blocks("write_natural", write_natural_kernel<false>, tensors, shape, stream);
  if (done) done = launch_blocks("write_natural (again)", write_natural_kernel<true>, tensors, shape, stream);
  return done;
}

Result<void> add_natural(std::span<const CodeToAdd> tensors, StreamHandle stream) {
  const auto shape = [](const CodeToAdd& of) { return shape_for(of.n, 4); };
  return launch_blocks("add_natural", add_natural_kernel, tensors, shape, stream);
}

}  // namespace weir::cuda
