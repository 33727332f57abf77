#include "compressors/kernels/cosines.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/ensure.hpp"
#include "compressors/kernels/processor.hpp"
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

/// out[r][c] = sum over i of a[r][i] * b[i][c], where rows of out begin `side` apart; `b` and `out` have whole lanes.
/// Some rows at a time, so that each value of b is loaded once for them.
template <std::size_t Rows>
[[gnu::always_inline]] inline void product_rows(const float* a, std::size_t a_stride, std::size_t inner, const float* b,
                                                std::size_t b_stride, std::size_t columns, float* out) {
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
      std::memcpy(out + r * side + c, &low[r], sizeof low[r]);
      std::memcpy(out + r * side + c + lanes / 2, &high[r], sizeof high[r]);
    }
  }
}

[[gnu::always_inline]] inline void product_body(const float* a, std::size_t a_stride, std::size_t rows,
                                                std::size_t inner, const float* b, std::size_t b_stride,
                                                std::size_t columns, float* out) {
  std::size_t r = 0;
  for (; r + 4 <= rows; r += 4)
    product_rows<4>(a + r * a_stride, a_stride, inner, b, b_stride, columns, out + r * side);
  for (; r < rows; ++r) product_rows<1>(a + r * a_stride, a_stride, inner, b, b_stride, columns, out + r * side);
}

using Product = void(const float* a, std::size_t a_stride, std::size_t rows, std::size_t inner, const float* b,
                     std::size_t b_stride, std::size_t columns, float* out);

void product_portable(const float* a, std::size_t a_stride, std::size_t rows, std::size_t inner, const float* b,
                      std::size_t b_stride, std::size_t columns, float* out) {
  product_body(a, a_stride, rows, inner, b, b_stride, columns, out);
}

#if defined(__x86_64__)
WEIR_AVX2 void product_avx2(const float* a, std::size_t a_stride, std::size_t rows, std::size_t inner, const float* b,
                            std::size_t b_stride, std::size_t columns, float* out) {
  product_body(a, a_stride, rows, inner, b, b_stride, columns, out);
}
#endif

Product* product() {
#if defined(__x86_64__)
  if (has_avx2()) return product_avx2;
#endif
  return product_portable;
}

std::size_t whole_lanes(std::size_t columns) { return (columns + lanes - 1) / lanes * lanes; }

/// The matrices of one size again, their rows padded to `side` so that loads of whole lanes stay inside.
struct Padded {
  alignas(64) float transposed[side * side];
};

/// C^T of `n` points in rows of `side`.
const float* padded_transposed(std::size_t n) {
  static const std::vector<Padded> all = [] {
    std::vector<Padded> made(side + 1);
    for (std::size_t size = 1; size <= side; ++size) {
      std::ranges::fill(made[size].transposed, 0.0F);
      const float* from = cosines(size).transposed;
      for (std::size_t i = 0; i < size; ++i) std::copy_n(from + i * size, size, made[size].transposed + i * side);
    }
    return made;
  }();
  return all[n].transposed;
}

}  // namespace

Cosines cosines(std::size_t n) {
  ensure(n >= 1 && n <= side, "a block's side");
  static const Table table;
  return {table.plain.data() + table.at[n], table.transposed.data() + table.at[n]};
}

std::uint32_t transform_block(const float* from, std::size_t stride, std::size_t rows, std::size_t columns, float scale,
                              CosineScratch& scratch, float* coefficients) {
  std::uint32_t largest = 0;
  const std::size_t padded = whole_lanes(columns);
  for (std::size_t i = 0; i < rows; ++i) {
    float* __restrict row = scratch.rows + i * side;
    const float* __restrict source = from + i * stride;
    for (std::size_t j = 0; j < columns; ++j) {
      largest = std::max(largest, magnitude(source[j]));
      row[j] = scale * source[j];
    }
    for (std::size_t j = columns; j < padded; ++j) row[j] = 0;
  }
  Product* const multiply = product();
  const float* block = scratch.rows;
  if (rows > 1) {
    multiply(cosines(rows).plain, rows, rows, rows, block, side, padded, scratch.both);
    block = scratch.both;
  }
  float* const out = block == scratch.rows ? scratch.both : scratch.rows;
  if (columns > 1) {
    multiply(block, side, rows, columns, padded_transposed(columns), side, padded, out);
    block = out;
  }
  for (std::size_t i = 0; i < rows; ++i) std::copy_n(block + i * side, columns, coefficients + i * columns);
  return largest;
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
  product()(transposed, side, rows, count, scratch.rows, side, padded, scratch.both);
  for (std::size_t i = 0; i < rows; ++i) {
    const float* __restrict from = scratch.both + i * side;
    float* __restrict sum = to + i * stride;
    for (std::size_t j = 0; j < columns; ++j) sum[j] += weight * from[j];
  }
}

}  // namespace weir::compressors
