#include "cuda/kernels/half.hpp"

#include "cuda/kernels/device.cuh"
#include "cuda/launch.cuh"

namespace weir::cuda {
namespace {

constexpr std::uint32_t half_max = 0x7BFF;
constexpr std::uint32_t bfloat16_max = 0x7F7F;
constexpr std::uint32_t quiet = 0x00400000;

__device__ std::uint32_t max_of(Half) { return half_max; }
__device__ std::uint32_t max_of(BFloat16) { return bfloat16_max; }

// The conversions are those of base/half.cpp: the hardware's would not saturate.

__device__ std::uint32_t narrow(float value, Half) {
  const std::uint32_t bits = __float_as_uint(value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFF;
  std::uint32_t rounded;
  if (magnitude > magnitude_infinite) {
    rounded = 0x7E00 | (magnitude >> 13 & 0x3FF);
  } else if (magnitude >= 0x477FF000) {  // 65520, which would round to infinity
    rounded = half_max;
  } else if (magnitude < 0x38800000) {  // below 2^-14: multiples of 2^-24, which is what 1/2 has as its last place
    rounded = __float_as_uint(__uint_as_float(magnitude) + 0.5F) - __float_as_uint(0.5F);
  } else {
    rounded = (magnitude + 0xFFF + (magnitude >> 13 & 1) - (112U << 23)) >> 13;
  }
  return rounded | (bits >> 16 & 0x8000);
}

__device__ std::uint32_t narrow(float value, BFloat16) {
  const std::uint32_t bits = __float_as_uint(value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFF;
  const std::uint32_t nearest = (magnitude + 0x7FFF + (magnitude >> 16 & 1)) >> 16;
  const std::uint32_t finite = nearest < bfloat16_max ? nearest : bfloat16_max;
  const std::uint32_t rounded = magnitude > magnitude_infinite ? (magnitude | quiet) >> 16 : finite;
  return rounded | (bits >> 16 & 0x8000);
}

__device__ float value_of(std::uint32_t bits, Half) {
  const std::uint32_t magnitude = bits & 0x7FFF;
  const std::uint32_t widened = magnitude > half_max
                                    ? magnitude_infinite | magnitude << 13 | (magnitude == half_max + 1 ? 0 : quiet)
                                    : __float_as_uint(__uint_as_float(magnitude << 13) * 0x1p112F);
  return __uint_as_float(widened | (bits & 0x8000) << 16);
}

__device__ float value_of(std::uint32_t bits, BFloat16) { return __uint_as_float(bits << 16); }

template <class Number>
__global__ void round_kernel(const float* __restrict__ from, std::uint64_t n, float share, Number* __restrict__ to,
                             Report* report) {
  std::uint32_t largest = 0;
  for (std::uint64_t at = 4 * thread_of_grid(); at < n; at += 4 * threads_of_grid()) {
    const unsigned count = at_most(n - at, 4);
    const Four four = load_four(from + at, count);
    std::uint64_t numbers = 0;
    for (unsigned k = 0; k < 4; ++k) {
      const float value = share * four.x[k];
      const std::uint32_t here = magnitude(value);
      largest = here > largest ? here : largest;
      numbers |= std::uint64_t{narrow(value, Number{})} << 16 * k;
    }
    store_word(numbers, reinterpret_cast<std::byte*>(to + at), 2 * count);
  }
  raise(&report->largest, largest);
}

/// `adds`: to what `to` has; else to zeros.
template <class Number, bool adds>
__global__ void add_scaled_kernel(float weight, const Number* __restrict__ from, std::uint64_t n,
                                  float* __restrict__ to, Report* report) {
  std::uint32_t largest = 0;
  for (std::uint64_t at = 4 * thread_of_grid(); at < n; at += 4 * threads_of_grid()) {
    const unsigned count = at_most(n - at, 4);
    const auto numbers = load_word<std::uint64_t>(reinterpret_cast<const std::byte*>(from + at), 2 * count);
    Four four = adds ? load_four(to + at, count) : Four{};
    for (unsigned k = 0; k < 4; ++k) {
      const auto bits = static_cast<std::uint32_t>(numbers >> 16 * k & 0xFFFF);
      largest = (bits & 0x7FFF) > largest ? bits & 0x7FFF : largest;
      four.x[k] += weight * value_of(bits, Number{});
    }
    store_four(four, to + at, count);
  }
  raise(&report->misfit, largest > max_of(Number{}) ? 1 : 0);
}

}  // namespace

template <class Number>
Result<void> round_to(const float* from, std::uint64_t n, float share, Number* to, Report* report,
                      StreamHandle stream) {
  if (n == 0) return {};
  return launch("round_to", round_kernel<Number>, shape_for(n, 4), stream, from, n, share, to, report);
}

template <class Number>
Result<void> add_scaled(float weight, const Number* from, std::uint64_t n, float* to, Report* report,
                        StreamHandle stream) {
  if (n == 0) return {};
  return launch("add_scaled", add_scaled_kernel<Number, true>, shape_for(n, 4), stream, weight, from, n, to, report);
}

template <class Number>
Result<void> widen(const Number* from, std::uint64_t n, float* to, Report* report, StreamHandle stream) {
  if (n == 0) return {};
  return launch("widen", add_scaled_kernel<Number, false>, shape_for(n, 4), stream, 1.0F, from, n, to, report);
}

template Result<void> round_to(const float*, std::uint64_t, float, Half*, Report*, StreamHandle);
template Result<void> round_to(const float*, std::uint64_t, float, BFloat16*, Report*, StreamHandle);
template Result<void> add_scaled(float, const Half*, std::uint64_t, float*, Report*, StreamHandle);
template Result<void> add_scaled(float, const BFloat16*, std::uint64_t, float*, Report*, StreamHandle);
template Result<void> widen(const Half*, std::uint64_t, float*, Report*, StreamHandle);
template Result<void> widen(const BFloat16*, std::uint64_t, float*, Report*, StreamHandle);

}  // namespace weir::cuda
