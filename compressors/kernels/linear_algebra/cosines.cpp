#include "compressors/kernels/linear_algebra/cosines.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/ensure.hpp"
#include "base/processor.hpp"
#include "compressors/kernels/prefetch.hpp"
#include "compressors/kernels/selection/selection.hpp"

namespace weir::compressors {
namespace {

constexpr std::size_t side = cosine_side_max;

// Taylor series on [0, pi/4]; the first term left out is below the precision of double.

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
  m %= 4 * n;                   // one period
  m = std::min(m, 4 * n - m);   // cos(-x) = cos(x): half a period
  const bool negative = m > n;  // cos(pi - x) = -cos(x): a quarter
  if (negative) m = 2 * n - m;
  const double x = 2 * m <= n ? cosine_near_zero(pi * static_cast<double>(m) / static_cast<double>(2 * n))
                              : sine_near_zero(pi * static_cast<double>(n - m) / static_cast<double>(2 * n));
  return negative ? -x : x;
}

/// The tables of all sizes, one after the other.
struct Table {
  std::array<std::size_t, side + 1> at{};
  std::vector<float> cosines;

  Table() {
    for (std::size_t n = 1; n <= side; ++n) {
      at[n] = cosines.size();
      cosines.resize(cosines.size() + n * n);
      for (std::size_t k = 0; k < n; ++k) {
        const double norm = std::sqrt((k == 0 ? 1.0 : 2.0) / static_cast<double>(n));
        for (std::size_t i = 0; i < n; ++i) {
          cosines[at[n] + k * n + i] = static_cast<float>(norm * cosine((2 * i + 1) * k, n));
        }
      }
    }
  }
};

/// Eight floats that are computed with at once: one AVX2 register, or two of the registers that every x86-64 processor
/// has.
using Eight [[gnu::vector_size(32)]] = float;
constexpr std::size_t lanes = 16;  // columns that are computed together

/// A matrix, or with `next_row` = 1 the transpose of a stored matrix.
struct Left {
  const float* at;
  std::size_t next_row;
  std::size_t next_column;

  const float* row(std::size_t r) const { return at + r * next_row; }
};

/// out[r][c] = sum over i of a[r][i] * b[i][c]. The strides are distances between rows; `b` and `out` have whole lanes.
/// Computes several rows at a time, so that each value of b is loaded once for all of them.
template <std::size_t Rows>
[[gnu::always_inline]] inline void product_rows(Left a, std::size_t inner, const float* b, std::size_t b_stride,
                                                std::size_t columns, float* out, std::size_t out_stride) {
  for (std::size_t c = 0; c < columns; c += lanes) {
    Eight low[Rows] = {};
    Eight high[Rows] = {};
    for (std::size_t i = 0; i < inner; ++i) {
      Eight left;
      Eight right;
      std::memcpy(&left, b + i * b_stride + c, sizeof left);
      std::memcpy(&right, b + i * b_stride + c + lanes / 2, sizeof right);
      for (std::size_t r = 0; r < Rows; ++r) {
        const float factor = a.row(r)[i * a.next_column];
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

[[gnu::always_inline]] inline void product(Left a, std::size_t rows, std::size_t inner, const float* b,
                                           std::size_t b_stride, std::size_t columns, float* out,
                                           std::size_t out_stride) {
  std::size_t r = 0;
  const auto rest = [&] { return Left{a.row(r), a.next_row, a.next_column}; };
  for (; r + 4 <= rows; r += 4) product_rows<4>(rest(), inner, b, b_stride, columns, out + r * out_stride, out_stride);
  for (; r < rows; ++r) product_rows<1>(rest(), inner, b, b_stride, columns, out + r * out_stride, out_stride);
}

std::size_t whole_lanes(std::size_t columns) { return (columns + lanes - 1) / lanes * lanes; }

constexpr std::size_t half = side / 2;

/// C^T of `n` points, divided by the parity of the frequency: even[i][k] = C[2 k][i], odd[i][k] = C[2 k + 1][i], for
/// the first half of the points, in rows of `half`. The rest of a row is zero, so that loading whole lanes adds
/// nothing.
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
      const float* from = cosines(size);
      for (std::size_t k = 0; k < size; ++k) {
        float* to = (k % 2 == 0 ? it.even : it.odd) + k / 2;
        for (std::size_t i = 0; i < (k % 2 == 0 ? size - size / 2 : size / 2); ++i) to[i * half] = from[k * size + i];
      }
    }
    return made;
  }();
  return all[n];
}

// Even frequencies depend only on the sums of a point and its mirror image, odd ones only on their differences: two
// products of half the size take half the work.

/// Prefetches a quarter of the rows of a block; called between computations.
void prefetch_quarter(const BlockView& block, std::size_t quarter) {
  for (std::size_t i = quarter * block.rows / 4; i < (quarter + 1) * block.rows / 4; ++i) {
    prefetch(std::span(block.at + i * block.stride, block.columns));
  }
}

/// scratch.both = C * block, with the columns padded with zeros to whole lanes. Returns the largest magnitude() of an
/// entry.
[[gnu::always_inline]] inline std::uint32_t transform_down(const BlockView& from, const BlockView& next, float scale,
                                                           const float* matrix, CosineScratch& scratch) {
  const auto [at, stride, rows, columns] = from;
  std::uint32_t largest = 0;
  const std::size_t upper = rows - rows / 2;
  const std::size_t padded = whole_lanes(columns);
  for (std::size_t i = 0; i < upper; ++i) {
    const float* __restrict a = at + i * stride;
    const float* __restrict b = at + (rows - 1 - i) * stride;
    float* __restrict sum = scratch.rows + i * side;
    float* __restrict difference = scratch.rows + (upper + i) * side;
    const bool middle = i == rows - 1 - i;
    for (std::size_t j = 0; j < columns; ++j) largest = std::max(largest, std::max(magnitude(a[j]), magnitude(b[j])));
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
  prefetch_quarter(next, 0);
  product({matrix, 2 * rows, 1}, upper, upper, scratch.rows, side, padded, scratch.both, 2 * side);
  prefetch_quarter(next, 1);
  product({matrix + rows, 2 * rows, 1}, rows / 2, rows / 2, scratch.rows + upper * side, side, padded,
          scratch.both + side, 2 * side);
  return largest;
}

/// coefficients = scratch.both * C^T.
[[gnu::always_inline]] inline void transform_across(std::size_t rows, std::size_t columns, const BlockView& next,
                                                    const Halves& matrix, CosineScratch& scratch, float* coefficients) {
  const std::size_t left = columns - columns / 2;
  for (std::size_t i = 0; i < rows; ++i) {
    const float* row = scratch.both + i * side;
    float mirrored[half];
    std::reverse_copy(row + left, row + columns, mirrored);
    float* sums = scratch.rows + i * side;
    for (std::size_t j = 0; j < columns / 2; ++j) sums[j] = row[j] + mirrored[j];
    for (std::size_t j = 0; j < columns / 2; ++j) sums[left + j] = row[j] - mirrored[j];
    if (columns % 2 != 0) sums[left - 1] = row[left - 1];
  }
  const std::size_t padded = whole_lanes(left);
  prefetch_quarter(next, 2);
  product({scratch.rows, side, 1}, rows, left, matrix.even, half, padded, scratch.both, side);
  prefetch_quarter(next, 3);
  product({scratch.rows + left, side, 1}, rows, columns / 2, matrix.odd, half, padded, scratch.both + half, side);
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

[[gnu::always_inline]] inline std::uint32_t transform_body(const BlockView& from, const BlockView& next, float scale,
                                                           const float* down, const Halves& across,
                                                           CosineScratch& scratch, float* coefficients) {
  const std::uint32_t largest = transform_down(from, next, scale, down, scratch);
  transform_across(from.rows, from.columns, next, across, scratch, coefficients);
  return largest;
}

/// The coefficients of a block with given parities of the frequencies down and across, as a sum of products: each is a
/// wave down the upper half of the rows times a wave across the left half of the columns.
struct Quarter {
  float* down;    ///< a row of `half` floats for each product
  float* across;  ///< as many, padded with zeros to whole lanes
  float* sum;     ///< rows of `half` floats
  std::size_t count = 0;
  std::array<std::uint8_t, half> of_column;  ///< by frequency across: the number of its product, or none

  static constexpr std::uint8_t none = 0xFF;
};

/// to += weight * (even + odd). Past the middle, `even` continues as its mirror image and `odd` as the negative of it.
[[gnu::always_inline]] inline void add_mirrored(const float* __restrict even, const float* __restrict odd,
                                                std::size_t columns, float weight, float* __restrict to) {
  for (std::size_t j = 0; j < columns - columns / 2; ++j) to[j] += weight * (even[j] + odd[j]);
  for (std::size_t j = 0; j < columns / 2; ++j) to[columns - 1 - j] += weight * (even[j] - odd[j]);
}

/// `quarters` in this order: even frequencies both ways, odd ones across, odd ones down, odd ones both ways.
[[gnu::always_inline]] inline void add_inverse_body(const std::array<Quarter, 4>& quarters, std::size_t rows,
                                                    std::size_t columns, float weight, float* to, std::size_t stride) {
  const std::size_t upper = rows - rows / 2;
  const std::size_t left = columns - columns / 2;
  for (std::size_t i = 0; i < quarters.size(); ++i) {
    const Quarter& it = quarters[i];
    prefetch_quarter({to, stride, rows, columns}, i);
    product({it.down, 1, half}, upper, it.count, it.across, half, whole_lanes(left), it.sum, half);
  }
  float even[half] = {};
  float odd[half] = {};
  for (std::size_t i = 0; i < upper; ++i) {
    const auto row = [&](std::size_t quarter) { return quarters[quarter].sum + i * half; };
    for (std::size_t j = 0; j < left; ++j) {
      even[j] = row(0)[j] + row(2)[j];
      odd[j] = row(1)[j] + row(3)[j];
    }
    add_mirrored(even, odd, columns, weight, to + i * stride);
    if (i == rows - 1 - i) continue;
    for (std::size_t j = 0; j < left; ++j) {
      even[j] = row(0)[j] - row(2)[j];
      odd[j] = row(1)[j] - row(3)[j];
    }
    add_mirrored(even, odd, columns, weight, to + (rows - 1 - i) * stride);
  }
}

#if defined(__x86_64__)
WEIR_AVX2 std::uint32_t transform_avx2(const BlockView& from, const BlockView& next, float scale, const float* down,
                                       const Halves& across, CosineScratch& scratch, float* coefficients) {
  return transform_body(from, next, scale, down, across, scratch, coefficients);
}
WEIR_AVX2 void add_inverse_avx2(const std::array<Quarter, 4>& quarters, std::size_t rows, std::size_t columns,
                                float weight, float* to, std::size_t stride) {
  add_inverse_body(quarters, rows, columns, weight, to, stride);
}
#endif

}  // namespace

const float* cosines(std::size_t n) {
  ensure(n >= 1 && n <= side, "a block's side");
  static const Table table;
  return table.cosines.data() + table.at[n];
}

std::uint32_t transform_block(const BlockView& from, const BlockView& next, float scale, CosineScratch& scratch,
                              float* coefficients) {
  const float* down = cosines(from.rows);
  const Halves& across = halves(from.columns);
#if defined(__x86_64__)
  if (has_avx2()) return transform_avx2(from, next, scale, down, across, scratch, coefficients);
#endif
  return transform_body(from, next, scale, down, across, scratch, coefficients);
}

void add_inverse_block(std::span<const std::uint32_t> places, std::span<const float> values, std::size_t rows,
                       std::size_t columns, float weight, CosineScratch& scratch, float* to, std::size_t stride) {
  // A wave of even frequency is its own mirror image, one of odd frequency the negative of it. Therefore a quarter of
  // the block suffices for each of the four kinds of coefficients. Few columns of a kind have any coefficients.
  if (places.empty()) return;
  std::array<Quarter, 4> quarters;
  for (std::size_t i = 0; i < quarters.size(); ++i) {
    constexpr std::size_t size = half * half;
    quarters[i].down = scratch.down + i * size;
    quarters[i].across = scratch.rows + i * size;
    quarters[i].sum = scratch.both + i * size;
    quarters[i].of_column.fill(Quarter::none);
  }
  const float* along_rows = cosines(rows);
  const float* along_columns = cosines(columns);
  const std::size_t upper = rows - rows / 2;
  const std::size_t left = columns - columns / 2;
  for (std::size_t n = 0; n < places.size(); ++n) {
    const std::size_t k = places[n] / columns;
    const std::size_t l = places[n] % columns;
    Quarter& quarter = quarters[k % 2 * 2 + l % 2];
    std::uint8_t& number = quarter.of_column[l / 2];
    if (number == Quarter::none) {
      number = static_cast<std::uint8_t>(quarter.count++);
      float* across = quarter.across + number * half;
      std::copy_n(along_columns + l * columns, left, across);
      std::fill(across + left, across + whole_lanes(left), 0.0F);
      std::fill_n(quarter.down + number * half, upper, 0.0F);
    }
    const float* __restrict wave = along_rows + k * rows;
    float* __restrict down = quarter.down + number * half;
    for (std::size_t i = 0; i < upper; ++i) down[i] += values[n] * wave[i];
  }
#if defined(__x86_64__)
  if (has_avx2()) return add_inverse_avx2(quarters, rows, columns, weight, to, stride);
#endif
  add_inverse_body(quarters, rows, columns, weight, to, stride);
}

}  // namespace weir::compressors
