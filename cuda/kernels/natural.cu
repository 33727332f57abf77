#include "cuda/kernels/natural.hpp"

#include "cuda/kernels/device.cuh"
#include "cuda/kernels/random.cuh"
#include "cuda/launch.cuh"

namespace weir::cuda {
namespace {

constexpr int window_max = 151;
constexpr unsigned sample_size = 4096;
constexpr int room = 24;

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

/// One block.
__global__ void sample_kernel(const float* __restrict__ values, std::uint64_t n, NaturalWindow* window) {
  if (threadIdx.x == 0) *window = {};
  __syncthreads();
  std::uint32_t largest = 0;
  for (std::uint64_t i = threadIdx.x; i < n && i < sample_size; i += blockDim.x) {
    largest = magnitude(values[i]) > largest ? magnitude(values[i]) : largest;
  }
  raise(&window->sample, largest);
}

/// Codes a group of a team, whose lanes each take every eighth entry, and returns the high bits. `size` entries are
/// left from its first on. All lanes of the warp take part.
__device__ std::uint32_t write_group(const float* values, std::uint64_t size, const RandomKey& key, std::uint64_t group,
                                     PowerOfTwo factor, std::byte* codes, std::uint32_t& largest) {
  const unsigned lane = lane_of_team();
  float x[8];
#pragma unroll
  for (unsigned k = 0; k < 8; ++k) x[k] = 8 * k + lane < size ? values[8 * k + lane] : 0.0F;
  const Philox::Block words = random_block(key, group * random_lanes + lane);
  std::uint32_t high = 0;
  std::uint64_t bytes = 0;
#pragma unroll
  for (unsigned k = 0; k < 8; ++k) {
    largest = magnitude(x[k]) > largest ? magnitude(x[k]) : largest;
    const std::uint32_t scaled = __float_as_uint(x[k] * factor.first * factor.second);
    const std::uint32_t carried = scaled + (word_of(words, k) >> 9);
    if (8 * k + lane < size) high |= scaled | carried;
    bytes |= std::uint64_t{(carried >> 23 & 0x7F) | (carried >> 24 & 0x80)} << 8 * k;
  }
  bytes = transpose_bytes(bytes);
  if (8 * lane < size) store_word(bytes, codes + 8 * lane, at_most(size - 8 * lane, 8));
  return high;
}

/// The first attempt, or, with `again`, the second with the window of the largest magnitude, if there must be one.
template <bool again>
__global__ void write_natural_kernel(const float* __restrict__ values, std::uint64_t n, RandomKey key,
                                     NaturalWindow* window, std::byte* __restrict__ code, Report* report) {
  if (again && (window->high & 0x40000000) == 0) return;  // the same for all threads: no kernel changes it now
  const int exponent = again ? window_of(window->largest) : window_of_sample(*window, n);
  const PowerOfTwo factor = power_of_two(23 - (exponent < window_max ? exponent : window_max));
  std::uint32_t high = 0;
  std::uint32_t largest = 0;
  const std::uint64_t groups = (n + random_group - 1) / random_group;
  for (std::uint64_t first = warp_of_grid() * teams_of_warp; first < groups; first += warps_of_grid() * teams_of_warp) {
    const std::uint64_t group = first + team_of_warp();
    const std::uint64_t start = group * random_group;
    high |= write_group(values + start, start < n ? n - start : 0, key, group, factor, code + 1 + start, largest);
  }
  if (thread_of_grid() == 0) *code = static_cast<std::byte>(exponent);
  if (again) return;
  raise(&window->largest, largest);
  raise(&report->largest, largest);
  // Only this bit is asked for, so that a maximum serves.
  raise(&window->high, high & 0x40000000);
}

__global__ void add_natural_kernel(const std::byte* __restrict__ code, std::uint64_t n, float weight,
                                   float* __restrict__ sum, Report* report) {
  const int window = static_cast<int>(*code);
  if (window > window_max) {
    raise(&report->misfit, 1);
    return;
  }
  const PowerOfTwo factor = power_of_two(window - 23);
  for (std::uint64_t at = 4 * thread_of_grid(); at < n; at += 4 * threads_of_grid()) {
    const unsigned count = at_most(n - at, 4);
    const auto codes = load_word<std::uint32_t>(code + 1 + at, count);
    Four four = load_four(sum + at, count);
    for (unsigned k = 0; k < 4; ++k) {
      const std::uint32_t here = codes >> 8 * k & 0xFF;
      const float power = __uint_as_float((here & 0x7F) << 23) * factor.first * factor.second;
      const float bounded = power < largest_float ? power : largest_float;
      four.x[k] += weight * __uint_as_float(__float_as_uint(bounded) | (here & 0x80) << 24);
    }
    store_four(four, sum + at, count);
  }
}

}  // namespace

Result<void> write_natural(const float* values, std::uint64_t n, const RandomKey& key, NaturalWindow* window,
                           std::byte* code, Report* report, StreamHandle stream) {
  if (n == 0) return {};
  const auto sampled =
      launch("write_natural (sample)", sample_kernel, {.blocks = 1, .threads = 256}, stream, values, n, window);
  if (!sampled) return sampled;
  const auto written = launch("write_natural", write_natural_kernel<false>, shape_for(n, 8), stream, values, n, key,
                              window, code, report);
  if (!written) return written;
  return launch("write_natural (again)", write_natural_kernel<true>, shape_for(n, 8), stream, values, n, key, window,
                code, report);
}

Result<void> add_natural(const std::byte* code, std::uint64_t n, float weight, float* sum, Report* report,
                         StreamHandle stream) {
  if (n == 0) return {};
  return launch("add_natural", add_natural_kernel, shape_for(n, 4), stream, code, n, weight, sum, report);
}

}  // namespace weir::cuda
