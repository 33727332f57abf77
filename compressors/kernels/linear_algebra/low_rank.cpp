#include "compressors/kernels/linear_algebra/low_rank.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/ensure.hpp"
#include "base/processor.hpp"
#include "compressors/kernels/selection/selection.hpp"

namespace weir::compressors {
namespace {

// Each loop is written once, as an inline body that is compiled twice: portable and for AVX2. Sums run in a fixed
// number of lanes, so that both versions add in the same order.

constexpr std::size_t lanes = 16;

[[gnu::always_inline]] inline float sum_of(const float* lane) {
  float half[8];
  for (std::size_t i = 0; i < 8; ++i) half[i] = lane[i] + lane[i + 8];
  return ((half[0] + half[4]) + (half[2] + half[6])) + ((half[1] + half[5]) + (half[3] + half[7]));
}

/// The dot products of one row with `Count` vectors, which are `stride` apart; the results are `out_stride` apart.
template <std::size_t Count>
[[gnu::always_inline]] inline void dots(const float* __restrict row, std::size_t n, const float* __restrict right,
                                        std::size_t stride, float* __restrict out, std::size_t out_stride) {
  float acc[Count][lanes] = {};
  std::size_t k = 0;
  for (; k + lanes <= n; k += lanes) {
    for (std::size_t j = 0; j < Count; ++j) {
      for (std::size_t l = 0; l < lanes; ++l) acc[j][l] += row[k + l] * right[j * stride + k + l];
    }
  }
  for (std::size_t l = 0; k < n; ++k, ++l) {
    for (std::size_t j = 0; j < Count; ++j) acc[j][l] += row[k] * right[j * stride + k];
  }
  for (std::size_t j = 0; j < Count; ++j) out[j * out_stride] = sum_of(acc[j]);
}

[[gnu::always_inline]] inline std::uint32_t largest_body(const float* __restrict x, std::size_t n) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, magnitude(x[i]));
  return largest;
}

[[gnu::always_inline]] inline void multiply_body(const float* matrix, MatrixShape shape, std::size_t first,
                                                 std::size_t last, const float* right, std::size_t rank, float* left) {
  const std::size_t n = shape.columns;
  for (std::size_t i = first; i < last; ++i) {
    const float* row = matrix + i * n;
    std::size_t j = 0;
    for (; j + 2 <= rank; j += 2) dots<2>(row, n, right + j * n, n, left + j * shape.rows + i, shape.rows);
    for (; j < rank; ++j) dots<1>(row, n, right + j * n, n, left + j * shape.rows + i, shape.rows);
  }
}

[[gnu::always_inline]] inline void multiply_transposed_body(const float* __restrict matrix, MatrixShape shape,
                                                            std::size_t first, std::size_t last,
                                                            const float* __restrict left, std::size_t rank,
                                                            float* __restrict right) {
  for (std::size_t j = 0; j < rank; ++j)
    std::fill(right + j * shape.columns + first, right + j * shape.columns + last, 0.0F);
  constexpr std::size_t block = 2048;  // columns whose sums stay in the first-level cache
  for (std::size_t begin = first; begin < last; begin += block) {
    const std::size_t end = std::min(last, begin + block);
    std::size_t i = 0;
    for (; i + 4 <= shape.rows; i += 4) {
      const float* __restrict row = matrix + i * shape.columns;
      for (std::size_t j = 0; j < rank; ++j) {
        const float* p = left + j * shape.rows + i;
        const float a = p[0], b = p[1], c = p[2], d = p[3];
        float* __restrict to = right + j * shape.columns;
        for (std::size_t k = begin; k < end; ++k) {
          to[k] = (((to[k] + a * row[k]) + b * row[k + shape.columns]) + c * row[k + 2 * shape.columns]) +
                  d * row[k + 3 * shape.columns];
        }
      }
    }
    for (; i < shape.rows; ++i) {
      const float* __restrict row = matrix + i * shape.columns;
      for (std::size_t j = 0; j < rank; ++j) {
        const float a = left[j * shape.rows + i];
        float* __restrict to = right + j * shape.columns;
        for (std::size_t k = begin; k < end; ++k) to[k] += a * row[k];
      }
    }
  }
}

/// Adds the sum of outer products to some rows, a few columns at a time, so that the partial sums stay in registers and
/// each entry of the right factors is read once for all rows. With vectors spelled out: where g++ 12 finds them by
/// itself, it reads the left factor of the next product along, which the last one does not have.
template <std::size_t Rows>
[[gnu::always_inline]] inline void add_rows(const float* left, const float* __restrict right, std::size_t rank,
                                            MatrixShape shape, float weight, float* __restrict to) {
  using Some = float __attribute__((vector_size(32)));
  constexpr std::size_t width = sizeof(Some) / sizeof(float);
  std::size_t k = 0;
  for (; k + width <= shape.columns; k += width) {
    Some acc[Rows] = {};
    for (std::size_t j = 0; j < rank; ++j) {
      const float* p = left + j * shape.rows;
      Some q;
      std::memcpy(&q, right + j * shape.columns + k, sizeof q);
      for (std::size_t r = 0; r < Rows; ++r) acc[r] += p[r] * q;
    }
    for (std::size_t r = 0; r < Rows; ++r) {
      float* const at = to + r * shape.columns + k;
      Some sum;
      std::memcpy(&sum, at, sizeof sum);
      sum += weight * acc[r];
      std::memcpy(at, &sum, sizeof sum);
    }
  }
  for (; k < shape.columns; ++k) {
    for (std::size_t r = 0; r < Rows; ++r) {
      float acc = 0;
      for (std::size_t j = 0; j < rank; ++j) acc += left[j * shape.rows + r] * right[j * shape.columns + k];
      to[r * shape.columns + k] += weight * acc;
    }
  }
}

[[gnu::always_inline]] inline void add_outer_body(const float* left, const float* right, std::size_t rank,
                                                  MatrixShape shape, std::size_t first, std::size_t last, float weight,
                                                  float* sum) {
  std::size_t i = first;
  for (; i + 4 <= last; i += 4) add_rows<4>(left + i, right, rank, shape, weight, sum + i * shape.columns);
  for (; i < last; ++i) add_rows<1>(left + i, right, rank, shape, weight, sum + i * shape.columns);
}

[[gnu::always_inline]] inline double dot_body(const double* __restrict a, const double* __restrict b, std::size_t n) {
  double acc[8] = {};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (std::size_t l = 0; l < 8; ++l) acc[l] += a[i + l] * b[i + l];
  }
  for (std::size_t l = 0; i < n; ++i, ++l) acc[l] += a[i] * b[i];
  return ((acc[0] + acc[4]) + (acc[2] + acc[6])) + ((acc[1] + acc[5]) + (acc[3] + acc[7]));
}

#if defined(__x86_64__)

WEIR_AVX2 void multiply_avx2(const float* matrix, MatrixShape shape, std::size_t first, std::size_t last,
                             const float* right, std::size_t rank, float* left) {
  return multiply_body(matrix, shape, first, last, right, rank, left);
}
WEIR_AVX2 void multiply_transposed_avx2(const float* matrix, MatrixShape shape, std::size_t first, std::size_t last,
                                        const float* left, std::size_t rank, float* right) {
  multiply_transposed_body(matrix, shape, first, last, left, rank, right);
}
WEIR_AVX2 void add_outer_avx2(const float* left, const float* right, std::size_t rank, MatrixShape shape,
                              std::size_t first, std::size_t last, float weight, float* sum) {
  add_outer_body(left, right, rank, shape, first, last, weight, sum);
}
WEIR_AVX2 std::uint32_t largest_avx2(const float* x, std::size_t n) { return largest_body(x, n); }

#endif

double norm(std::span<const double> x) { return std::sqrt(dot_body(x.data(), x.data(), x.size())); }

/// Removes from `x` its components along `others`: unit vectors of the same length, stored one after the other.
void project_out(std::span<double> x, std::span<const double> others) {
  for (std::size_t at = 0; at < others.size(); at += x.size()) {
    const double* other = others.data() + at;
    const double along = dot_body(x.data(), other, x.size());
    for (std::size_t i = 0; i < x.size(); ++i) x[i] -= along * other[i];
  }
}

void divide(std::span<double> x, double by) {
  for (double& value : x) value /= by;
}

}  // namespace

void multiply(const float* matrix, MatrixShape shape, std::size_t first, std::size_t last, const float* right,
              std::size_t rank, float* left) {
#if defined(__x86_64__)
  if (has_avx2()) return multiply_avx2(matrix, shape, first, last, right, rank, left);
#endif
  return multiply_body(matrix, shape, first, last, right, rank, left);
}

void multiply_transposed(const float* matrix, MatrixShape shape, std::size_t first, std::size_t last, const float* left,
                         std::size_t rank, float* right) {
#if defined(__x86_64__)
  if (has_avx2()) return multiply_transposed_avx2(matrix, shape, first, last, left, rank, right);
#endif
  multiply_transposed_body(matrix, shape, first, last, left, rank, right);
}

void add_outer_products(const float* left, const float* right, std::size_t rank, MatrixShape shape, std::size_t first,
                        std::size_t last, float weight, float* sum) {
  if (rank == 0) return;
#if defined(__x86_64__)
  if (has_avx2()) return add_outer_avx2(left, right, rank, shape, first, last, weight, sum);
#endif
  add_outer_body(left, right, rank, shape, first, last, weight, sum);
}

void orthonormalise(std::span<float> vectors, std::size_t rank) {
  if (rank == 0) return;
  ensure(vectors.size() % rank == 0, "vectors of one length");
  const std::size_t length = vectors.size() / rank;
  thread_local std::vector<double> wide;  // kept between calls to reuse its memory
  wide.assign(vectors.begin(), vectors.end());
  for (std::size_t j = 0; j < rank; ++j) {
    const std::span<double> x = std::span(wide).subspan(j * length, length);
    const std::span<const double> before = std::span(wide).first(j * length);
    // All that remains of a linearly dependent vector is the rounding error of the floats it came from, or zero. The
    // former is as good a direction as any: the first projection makes it only roughly orthogonal, the second exactly.
    constexpr double nothing = 1e-13;
    double original = norm(x);
    bool zero = !(original > 0);
    for (int time = 0; time < 2 && !zero; ++time) {
      divide(x, original);
      project_out(x, before);
      original = norm(x);
      zero = !(original > nothing);
    }
    if (zero) {
      std::ranges::fill(x, 0);
    } else {
      divide(x, original);
    }
  }
  std::ranges::transform(wide, vectors.begin(), [](double value) { return static_cast<float>(value); });
}

void normalise(std::span<float> vectors, std::size_t rank) {
  if (rank == 0) return;
  const std::size_t length = vectors.size() / rank;
  thread_local std::vector<double> wide;  // kept between calls to reuse its memory
  wide.resize(length);
  for (std::size_t j = 0; j < rank; ++j) {
    const std::span<float> x = vectors.subspan(j * length, length);
    std::ranges::copy(x, wide.begin());
    const double size = norm(wide);
    if (!(size > 0)) continue;
    for (std::size_t i = 0; i < length; ++i) x[i] = static_cast<float>(wide[i] / size);
  }
}

std::uint32_t largest_magnitude(std::span<const float> values) {
#if defined(__x86_64__)
  if (has_avx2()) return largest_avx2(values.data(), values.size());
#endif
  return largest_body(values.data(), values.size());
}

bool outer_products_are_finite(std::span<const float> left, std::span<const float> right, std::size_t rank) {
  if (rank == 0) return true;
  const std::size_t rows = left.size() / rank;
  const std::size_t columns = right.size() / rank;
  double most = 0;
  for (std::size_t j = 0; j < rank; ++j) {
    const std::uint32_t a = largest_magnitude(left.subspan(j * rows, rows));
    const std::uint32_t b = largest_magnitude(right.subspan(j * columns, columns));
    if (a >= magnitude_infinite || b >= magnitude_infinite) return false;
    most += static_cast<double>(std::bit_cast<float>(a)) * static_cast<double>(std::bit_cast<float>(b));
  }
  return most <= static_cast<double>(std::numeric_limits<float>::max());
}

}  // namespace weir::compressors
