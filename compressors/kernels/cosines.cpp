#include "compressors/kernels/cosines.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/ensure.hpp"
#include "base/processor.hpp"
#include "compressors/kernels/selection.hpp"

namespace weir::compressors {
namespace {

constexpr std::size_t side = cosine_side_max;

// Taylor's series on [0, pi/4]: the next term is below the precision of double.

double sine_near_zero(double x) {
  double term = x;
  double sum = x;
  for (int i = 1; i <= 9; ++i) {
    term *= -x * x / (2 * i * (2 * i + 1));
    sum += term;
  }
  return sum;
}

double cosine_near_zero(double x) {
  double term = 1;
  double sum = 1;
  for (int i = 1; i <= 9; ++i) {
    term *= -x * x / ((2 * i - 1) * 2 * i);
    sum += term;
  }
  return sum;
}

/// cos(pi * m / (2 n)).
double cosine(std::size_t m, std::size_t n) {
  constexpr double pi = 3.14159265358979323846;
  m %= 4 * n;                   // the circle
  m = std::min(m, 4 * n - m);   // cos(-x) = cos(x): half of it
  const bool negative = m > n;  // cos(pi - x) = -cos(x): a quarter
  if (negative) m = 2 * n - m;
  const double x = 2 * m <= n ? cosine_near_zero(pi * static_cast<double>(m) / static_cast<double>(2 * n))
                              : sine_near_zero(pi * static_cast<double>(n - m) / static_cast<double>(2 * n));
  return negative ? -x : x;
}

/// All sizes, one behind the other.
struct Table {
  std::array<std::size_t, side + 1> at{};
  std::vector<float> plain;
  std::vector<float> transposed;

  Table() {
    for (std::size_t n = 1; n <= side; ++n) {
      at[n] = plain.size();
      plain.resize(plain.size() + n * n);
      transposed.resize(plain.size());
      for (std::size_t k = 0; k < n; ++k) {
        const double norm = std::sqrt((k == 0 ? 1.0 : 2.0) / static_cast<double>(n));
        for (std::size_t i = 0; i < n; ++i) {
          const auto value = static_cast<float>(norm * cosine((2 * i + 1) * k, n));
          plain[at[n] + k * n + i] = value;
          transposed[at[n] + i * n + k] = value;
        }
      }
    }
  }
};

/// Eight floats that are computed with at once: one register of AVX2, two of what every x86-64 has.
using Eight [[gnu::vector_size(32)]] = float;
constexpr std::size_t lanes = 16;  // columns that are computed together

/// out[r][c] = sum over i of a[r][i] * b[i][c], where rows begin as far apart as is said; `b` and `out` have whole
/// lanes. Some rows at a time, so that each value of b is loaded once for them.
template <std::size_t Rows>
[[gnu::always_inline]] inline void product_rows(const float* a, std::size_t a_stride, std::size_t inner, const float* b,
                                                std::size_t b_stride, std::size_t columns, float* out,
                                                std::size_t out_stride) {
  for (std::size_t c = 0; c < columns; c += lanes) {
    Eight low[Rows] = {};
    Eight high[Rows] = {};
    for (std::size_t i = 0; i < inner; ++i) {
      Eight left;
      Eight right;
      std::memcpy(&left, b + i * b_stride + c, sizeof left);
      std::memcpy(&right, b + i * b_stride + c + lanes / 2, sizeof right);
      for (std::size_t r = 0; r < Rows; ++r) {
        const float factor = a[r * a_stride + i];
        low[r] += factor * left;
        high[r] += factor * right;
      }
    }
    for (std::size_t r = 0; r < Rows; ++r) {
      std::memcpy(out + r * out_stride + c, &low[r], sizeof low[r]);
      std::memcpy(out + r * out_stride + c + lanes / 2, &high[r], sizeof high[r]);
    }
  }
}

[[gnu::always_inline]] inline void product_body(const float* a, std::size_t a_stride, std::size_t rows,
                                                std::size_t inner, const float* b, std::size_t b_stride,
                                                std::size_t columns, float* out, std::size_t out_stride) {
  std::size_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    product_rows<4>(a + r * a_stride, a_stride, inner, b, b_stride, columns, out + r * out_stride, out_stride);
  }
  for (; r < rows; ++r) {
    product_rows<1>(a + r * a_stride, a_stride, inner, b, b_stride, columns, out + r * out_stride, out_stride);
  }
}

std::size_t whole_lanes(std::size_t columns) { return (columns + lanes - 1) / lanes * lanes; }

constexpr std::size_t half = side / 2;

/// C^T of `n` points by the parity of the frequency: even[i][k] = C[2 k][i], odd[i][k] = C[2 k + 1][i], for the first
/// half of the points, in rows of `half`; the rest of a row is zero, so that loads of whole lanes give nothing else.
struct Halves {
  alignas(32) float even[half * half];
  alignas(32) float odd[half * half];
};

const Halves& halves(std::size_t n) {
  static const std::vector<Halves> all = [] {
    std::vector<Halves> made(side + 1);
    for (std::size_t size = 1; size <= side; ++size) {
      Halves& it = made[size];
      std::ranges::fill(it.even, 0.0F);
      std::ranges::fill(it.odd, 0.0F);
      const float* from = cosines(size).plain;
      for (std::size_t k = 0; k < size; ++k) {
        float* to = (k % 2 == 0 ? it.even : it.odd) + k / 2;
        for (std::size_t i = 0; i < (k % 2 == 0 ? size - size / 2 : size / 2); ++i) to[i * half] = from[k * size + i];
      }
    }
    return made;
  }();
  return all[n];
}

// Even frequencies see only the sums of a point and its mirror image, odd ones only their differences: two products of
// half the size take half the work.

/// scratch.both = C * block, whose columns are padded with zeros to whole lanes. Gives the largest magnitude of an
/// entry.
[[gnu::always_inline]] inline std::uint32_t transform_down(const float* from, std::size_t stride, std::size_t rows,
                                                           std::size_t columns, float scale, const float* matrix,
                                                           CosineScratch& scratch) {
  std::uint32_t largest = 0;
  const std::size_t upper = rows - rows / 2;
  const std::size_t padded = whole_lanes(columns);
  for (std::size_t i = 0; i < upper; ++i) {
    const float* __restrict a = from + i * stride;
    const float* __restrict b = from + (rows - 1 - i) * stride;
    float* __restrict sum = scratch.rows + i * side;
    float* __restrict difference = scratch.rows + (upper + i) * side;
    const bool middle = i == rows - 1 - i;
    for (std::size_t j = 0; j < columns; ++j) largest = std::max({largest, magnitude(a[j]), magnitude(b[j])});
    if (middle) {
      for (std::size_t j = 0; j < columns; ++j) sum[j] = scale * a[j];
    } else {
      for (std::size_t j = 0; j < columns; ++j) {
        sum[j] = scale * a[j] + scale * b[j];
        difference[j] = scale * a[j] - scale * b[j];
      }
      std::fill(difference + columns, difference + padded, 0.0F);
    }
    std::fill(sum + columns, sum + padded, 0.0F);
  }
  product_body(matrix, 2 * rows, upper, upper, scratch.rows, side, padded, scratch.both, 2 * side);
  product_body(matrix + rows, 2 * rows, rows / 2, rows / 2, scratch.rows + upper * side, side, padded,
               scratch.both + side, 2 * side);
  return largest;
}

/// coefficients = scratch.both * C^T.
[[gnu::always_inline]] inline void transform_across(std::size_t rows, std::size_t columns, const Halves& matrix,
                                                    CosineScratch& scratch, float* coefficients) {
  const std::size_t left = columns - columns / 2;
  for (std::size_t i = 0; i < rows; ++i) {
    const float* __restrict row = scratch.both + i * side;
    float* __restrict folded = scratch.rows + i * side;
    for (std::size_t j = 0; j < columns / 2; ++j) {
      folded[j] = row[j] + row[columns - 1 - j];
      folded[left + j] = row[j] - row[columns - 1 - j];
    }
    if (columns % 2 != 0) folded[left - 1] = row[left - 1];
  }
  const std::size_t padded = whole_lanes(left);
  product_body(scratch.rows, side, rows, left, matrix.even, half, padded, scratch.both, side);
  product_body(scratch.rows + left, side, rows, columns / 2, matrix.odd, half, padded, scratch.both + half, side);
  for (std::size_t i = 0; i < rows; ++i) {
    const float* __restrict even = scratch.both + i * side;
    const float* __restrict odd = even + half;
    float* __restrict to = coefficients + i * columns;
    for (std::size_t k = 0; k < columns / 2; ++k) {
      to[2 * k] = even[k];
      to[2 * k + 1] = odd[k];
    }
    if (columns % 2 != 0) to[columns - 1] = even[left - 1];
  }
}

[[gnu::always_inline]] inline std::uint32_t transform_body(const float* from, std::size_t stride, std::size_t rows,
                                                           std::size_t columns, float scale, const float* down,
                                                           const Halves& across, CosineScratch& scratch,
                                                           float* coefficients) {
  const std::uint32_t largest = transform_down(from, stride, rows, columns, scale, down, scratch);
  transform_across(rows, columns, across, scratch, coefficients);
  return largest;
}

#if defined(__x86_64__)
WEIR_AVX2 void product_avx2(const float* a, std::size_t a_stride, std::size_t rows, std::size_t inner, const float* b,
                            std::size_t b_stride, std::size_t columns, float* out) {
  product_body(a, a_stride, rows, inner, b, b_stride, columns, out, side);
}
WEIR_AVX2 std::uint32_t transform_avx2(const float* from, std::size_t stride, std::size_t rows, std::size_t columns,
                                       float scale, const float* down, const Halves& across, CosineScratch& scratch,
                                       float* coefficients) {
  return transform_body(from, stride, rows, columns, scale, down, across, scratch, coefficients);
}
#endif

void product(const float* a, std::size_t a_stride, std::size_t rows, std::size_t inner, const float* b,
             std::size_t b_stride, std::size_t columns, float* out) {
#if defined(__x86_64__)
  if (has_avx2()) return product_avx2(a, a_stride, rows, inner, b, b_stride, columns, out);
#endif
  product_body(a, a_stride, rows, inner, b, b_stride, columns, out, side);
}

}  // namespace

Cosines cosines(std::size_t n) {
  ensure(n >= 1 && n <= side, "a block's side");
  static const Table table;
  return {table.plain.data() + table.at[n], table.transposed.data() + table.at[n]};
}

std::uint32_t transform_block(const float* from, std::size_t stride, std::size_t rows, std::size_t columns, float scale,
                              CosineScratch& scratch, float* coefficients) {
  const float* down = cosines(rows).plain;
  const Halves& across = halves(columns);
#if defined(__x86_64__)
  if (has_avx2()) return transform_avx2(from, stride, rows, columns, scale, down, across, scratch, coefficients);
#endif
  return transform_body(from, stride, rows, columns, scale, down, across, scratch, coefficients);
}

void add_inverse_block(std::span<const std::uint32_t> places, std::span<const float> values, std::size_t rows,
                       std::size_t columns, float weight, CosineScratch& scratch, float* to, std::size_t stride) {
  // X = C^T Y C. Of Y's columns, few have anything: C^T Y is made for these alone.
  std::array<std::uint8_t, side> slot;
  slot.fill(0xFF);
  std::array<bool, side> used{};
  for (const std::uint32_t place : places) used[place % columns] = true;
  std::array<std::uint8_t, side> column_of{};
  std::size_t count = 0;
  for (std::size_t j = 0; j < columns; ++j) {
    if (!used[j]) continue;
    column_of[count] = static_cast<std::uint8_t>(j);
    slot[j] = static_cast<std::uint8_t>(count++);
  }
  if (count == 0) return;
  // Column `slot` of C^T Y is a row of scratch.both; rows of C that go with them are gathered in scratch.rows.
  const Cosines along_rows = cosines(rows);
  const Cosines along_columns = cosines(columns);
  for (std::size_t s = 0; s < count; ++s) std::fill_n(scratch.both + s * side, rows, 0.0F);
  for (std::size_t n = 0; n < places.size(); ++n) {
    const float* __restrict wave = along_rows.plain + places[n] / columns * rows;
    float* __restrict column = scratch.both + slot[places[n] % columns] * side;
    for (std::size_t i = 0; i < rows; ++i) column[i] += values[n] * wave[i];
  }
  const std::size_t padded = whole_lanes(columns);
  float transposed[side * side];
  for (std::size_t s = 0; s < count; ++s) {
    for (std::size_t i = 0; i < rows; ++i) transposed[i * side + s] = scratch.both[s * side + i];
    std::copy_n(along_columns.plain + column_of[s] * columns, columns, scratch.rows + s * side);
    std::fill(scratch.rows + s * side + columns, scratch.rows + s * side + padded, 0.0F);
  }
  product(transposed, side, rows, count, scratch.rows, side, padded, scratch.both);
  for (std::size_t i = 0; i < rows; ++i) {
    const float* __restrict from = scratch.both + i * side;
    float* __restrict sum = to + i * stride;
    for (std::size_t j = 0; j < columns; ++j) sum[j] += weight * from[j];
  }
}

}  // namespace weir::compressors
