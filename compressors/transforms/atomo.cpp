#include "compressors/transforms/atomo.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>

#include "compressors/device/codes.hpp"
#include "compressors/device/cosines.hpp"
#include "compressors/device/device_values.hpp"
#include "compressors/device/memory_steps.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/linear_algebra/cosines.hpp"
#include "compressors/kernels/random/draw.hpp"
#include "compressors/kernels/random/random.hpp"
#include "compressors/non_finite.hpp"
#include "compressors/parallel_loops.hpp"
#include "compressors/round_key.hpp"
#include "compressors/transforms/matrix.hpp"
#include "compressors/transforms/rounded.hpp"
#include "compressors/transforms/water_filling.hpp"

namespace weir::compressors {
namespace {

// The random words of a round: one for each value, a second one if the first does not decide, then those of rounding.
constexpr std::uint64_t second_words = std::uint64_t{1} << 32;
constexpr std::uint64_t rounding_words = std::uint64_t{1} << 33;

/// The largest magnitude().
Result<std::uint32_t> largest_of(const at::Tensor& tensor) {
  if (!tensor.is_cpu()) return device::largest_magnitude(tensor);
  const std::span<const float> values = flat(tensor);
  std::atomic<std::uint32_t> largest = 0;
  parallel_for_ranges(values.size(), 1, [&](std::size_t begin, std::size_t end) {
    const std::uint32_t mine = largest_magnitude(values.subspan(begin, end - begin));
    std::uint32_t known = largest;
    while (known < mine && !largest.compare_exchange_weak(known, mine)) {
    }
  });
  return largest.load();
}

/// The lower triangle of x x^T, computed in strips; takes a little more than half of the work of the full product.
at::Tensor gram(const at::Tensor& x) {
  constexpr std::int64_t strip = 128;
  const std::int64_t n = x.size(0);
  at::Tensor product = at::zeros({n, n}, x.options());
  for (std::int64_t row = 0; row < n; row += strip) {
    const std::int64_t rows = std::min(strip, n - row);
    at::Tensor part = product.narrow(0, row, rows).narrow(1, 0, row + rows);
    at::mm_out(part, x.narrow(0, row, rows), x.narrow(0, 0, row + rows).t());
  }
  return product;
}

/// Returns orthonormal vectors, one per row, that span the smaller side of a matrix, and fills `lengths` with those of
/// the matrix's products with them. `x` has no more rows than columns, and its entries are neither huge nor tiny.
at::Tensor singular_basis(const at::Tensor& x, std::vector<float>& lengths) {
  // LibTorch 1.13 holds the size of LAPACK's workspace in a number of the matrix's type, and float32 cannot represent
  // the 2 n^2 of larger sides.
  constexpr std::int64_t float_side_max = 2048;
  const auto type = x.size(0) > float_side_max ? at::kDouble : at::kFloat;
  const auto [exact_values, exact_vectors] = at::linalg_eigh(gram(x).to(type), "L");
  const at::Tensor values = exact_values.to(at::kFloat).cpu();
  at::Tensor vectors = exact_vectors.to(at::kFloat).t();
  lengths.resize(static_cast<std::size_t>(x.size(0)));
  const std::span<const float> squares = flat(values);
  // The smallest eigenvalues are mostly rounding errors of the largest one; for those the lengths are measured
  // directly.
  constexpr float trusted = 2e-5F;
  std::size_t unsure = 0;
  while (unsure < squares.size() && !(squares[unsure] > trusted * squares.back())) ++unsure;
  if (unsure > 0) {
    const at::Tensor small = vectors.narrow(0, 0, static_cast<std::int64_t>(unsure)).mm(x).norm(2, 1).cpu();
    std::ranges::copy(flat(small), lengths.begin());
  }
  for (std::size_t i = unsure; i < squares.size(); ++i) lengths[i] = std::sqrt(squares[i]);
  return vectors;
}

/// Some rows of a matrix, one after the other.
void take_rows(const at::Tensor& matrix, const std::vector<std::int64_t>& numbers, std::vector<float>& rows) {
  if (!matrix.is_cpu()) {
    const at::Tensor taken = matrix.index_select(0, at::tensor(numbers, at::kLong).to(matrix.device())).cpu();
    const auto entries = flat(taken);
    rows.assign(entries.begin(), entries.end());
    return;
  }
  // Without a tensor for the result. The memory of the matrix may be in any order.
  const auto width = static_cast<std::size_t>(matrix.size(1));
  rows.resize(numbers.size() * width);
  auto to = rows.begin();
  for (const std::int64_t row : numbers) {
    const float* from = matrix.data_ptr<float>() + row * matrix.stride(0);
    for (std::size_t i = 0; i < width; ++i, from += matrix.stride(1)) *to++ = *from;
  }
}

/// Multiplies each vector by its own factor. Clamps the entries so that the sum of all vectors stays within float.
void scale_vectors(std::span<float> vectors, const std::vector<double>& factors) {
  if (factors.empty()) return;
  const std::size_t length = vectors.size() / factors.size();
  const double most = static_cast<double>(std::numeric_limits<float>::max()) / static_cast<double>(factors.size());
  for (std::size_t j = 0; j < factors.size(); ++j) {
    for (float& value : vectors.subspan(j * length, length)) {
      value = static_cast<float>(std::clamp(factors[j] * static_cast<double>(value), -most, most));
    }
  }
}

/// Those of valid_rounding().
std::vector<std::int64_t> rounding_choices() {
  std::vector<std::int64_t> choices;
  for (unsigned bits = 0; bits <= rounded_bits_max; ++bits) {
    if (valid_rounding(bits)) choices.push_back(bits);
  }
  return choices;
}

}  // namespace

protocol::Params<Atomo::Options> Atomo::params() {
  return protocol::Params<Options>()
      .choice("atoms", &Options::atoms, {"svd", "entrywise", "dct"},
              "What is drawn: singular vectors, entries, or cosines of blocks of 64 x 64.")
      .number("budget", &Options::budget, {.exclusive_minimum = 0.0},
              "Pairs of singular vectors that are sent on average.")
      .number("ratio", &Options::ratio, {.exclusive_minimum = 0.0, .maximum = 1.0},
              "Share of the entries or cosines that is sent on average.")
      .choice("quantize_bits", &Options::quantize_bits, rounding_choices(),
              "Bits of a number on the wire, rounded at random; 0 for float32. One bit has no level but zero.")
      .only_where("budget", "atoms", {{"const", "svd"}})
      .only_where("ratio", "atoms", {{"enum", {"entrywise", "dct"}}});
}

double Atomo::values_sent(std::uint64_t entries) const {
  return std::max(1.0, options_.ratio * static_cast<double>(entries));
}

double Atomo::error_bound(std::uint64_t entries, const Round&) const {
  if (entries == 0) return 0;
  const auto n = static_cast<double>(entries);
  const double rounding = rounding_variance(bits());
  if (options_.atoms != "svd") {
    // With equal probabilities the variance would be n / sent - 1; the optimal ones are no worse. The transform adds
    // rounding.
    const double exact = options_.atoms == "dct" ? 1e-10 : 0;
    return std::max(n / values_sent(entries) - 1, 0.0) * (1 + 1e-6) + rounding + exact;
  }
  // The matrix has at most sqrt(n) atoms, and the rounding of both factors multiplies. The lengths from which the
  // probabilities are computed are exact to one percent.
  const double atoms = std::floor(std::sqrt(n));
  const double drawing = atoms <= options_.budget ? 1 : atoms / options_.budget * 1.04;
  return drawing * (1 + rounding) * (1 + rounding) - 1;
}

std::optional<WireBits> Atomo::expected_bits(at::IntArrayRef shape, const Round&) const {
  const auto entries = static_cast<double>(entries_of(shape));
  if (entries == 0 || options_.atoms != "svd") return std::nullopt;
  const double rows = shape.size() > 1 ? static_cast<double>(shape[0]) : 1;
  const double columns = entries / rows;
  const double numbers = std::min({options_.budget, rows, columns}) * (rows + columns);
  const auto bytes = static_cast<double>(rounded_bytes(static_cast<std::size_t>(std::ceil(numbers)), bits()));
  return WireBits{.gathered = 8 * bytes / entries};
}

Result<void> Atomo::do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) {
  return options_.atoms == "svd" ? encode_products(gradient, round, out) : encode_values(gradient, round, out);
}

Result<void> Atomo::encode_products(const at::Tensor& gradient, const Round& round, Bytes& out) {
  const MatrixShape shape = matrix_shape(gradient.sizes());
  const RandomKey key = key_of_rank(round);
  sent_.shape = shape;
  sent_.count = 0;
  const auto largest = largest_of(gradient);
  if (!largest) return largest.error();
  if (*largest >= magnitude_infinite) return non_finite(round, gradient);
  if (*largest > 0) {
    // Within these exponents, squares stay far from the limits of float.
    const int exponent = std::ilogb(std::bit_cast<float>(*largest));
    const int shift = std::abs(exponent) <= 40 ? 0 : -exponent;
    at::Tensor matrix = gradient;
    // 2^shift may not be representable as a float, but its two halves are.
    if (shift != 0) matrix = matrix * std::exp2(shift / 2) * std::exp2(shift - shift / 2);
    const bool wide = shape.rows <= shape.columns;
    const std::size_t side = std::min(shape.rows, shape.columns);

    std::vector<float>& units = wide ? sent_.left : sent_.right;
    factors_.clear();
    if (static_cast<double>(side) <= options_.budget) {
      units.assign(side * side, 0);
      for (std::size_t i = 0; i < side; ++i) units[i * side + i] = 1;
      factors_.assign(side, std::exp2(-shift));
    } else {
      const at::Tensor rows = matrix.reshape({static_cast<std::int64_t>(shape.rows), -1});
      const at::Tensor vectors = singular_basis(wide ? rows : rows.t(), lengths_);
      const HostValues lengths(lengths_, {});
      const auto sums = lengths.magnitude_sums(MagnitudeSums::of_all);
      const float level = water_level(lengths, sums.value(), options_.budget).value();
      words_.resize(side);
      fill_random(key, 0, words_);
      drawn_rows_.clear();
      for (std::size_t i = 0; i < side; ++i) {
        const double p = probability(lengths_[i], level);
        if (!happens(p, words_[i], [&] { return random_word(key, second_words + i); })) continue;
        factors_.push_back(std::exp2(-shift) / p);
        drawn_rows_.push_back(static_cast<std::int64_t>(i));
      }
      take_rows(vectors, drawn_rows_, units);
    }
    sent_.count = factors_.size();
    std::vector<float>& products = wide ? sent_.right : sent_.left;
    auto multiplied = wide ? multiply_transposed(matrix, shape, units, sent_.count, products)
                           : multiply(matrix, shape, units, sent_.count, products);
    if (!multiplied) return multiplied;
    scale_vectors(products, factors_);
  }
  write_outer_products(sent_, bits(), {key, rounding_words}, out);
  return {};
}

Result<void> Atomo::encode_values(const at::Tensor& gradient, const Round& round, Bytes& out) {
  const RandomKey key = key_of_rank(round);
  const bool dct = options_.atoms == "dct";
  drawn_.selection.clear();
  drawn_.level = 0;
  if (gradient.numel() > 0) {
    const auto drawn = dct ? draw_cosines(gradient, key) : draw_entries(gradient, key);
    if (!drawn) return drawn.error();
    if (!*drawn) return non_finite(round, gradient);
  }
  write_balanced(drawn_, static_cast<std::uint32_t>(gradient.numel()), dct ? ValueKind::cosines : ValueKind::entries,
                 bits(), {key, rounding_words}, out);
  return {};
}

Result<bool> Atomo::draw_entries(const at::Tensor& gradient, const RandomKey& key) {
  constexpr float most = std::numeric_limits<float>::max();
  return gradient.is_cpu() ? draw(HostValues(flat(gradient), {}), key, most)
                           : draw(device::DeviceValues(gradient, nullptr), key, most);
}

Result<bool> Atomo::draw_cosines(const at::Tensor& gradient, const RandomKey& key) {
  const BlockGrid grid(matrix_shape(gradient.sizes()), cosine_side_max);
  if (!gradient.is_cpu()) {
    const auto coefficients = device::transform(gradient, grid);
    if (!coefficients) return coefficients.error();
    return draw(device::DeviceValues(*coefficients, nullptr), key, coefficient_max);
  }
  const std::span<const float> values = flat(gradient);
  coefficients_.resize(values.size());
  std::atomic<bool> finite = true;
  for_blocks(grid, [&](std::size_t first, std::size_t last) {
    const bool done = transform_blocks(grid, values, first, last, [&](std::size_t, const auto& block, auto some) {
      std::ranges::copy(some, coefficients_.begin() + static_cast<std::ptrdiff_t>(block.position));
    });
    if (!done) finite = false;
  });
  if (!finite) return false;
  return draw(HostValues(coefficients_, {}), key, coefficient_max);
}

Result<bool> Atomo::draw(const Values& values, const RandomKey& key, float level_max) {
  const auto sums = values.magnitude_sums(MagnitudeSums::of_all);
  if (!sums) return sums.error();
  if (sums->largest >= magnitude_infinite) return false;
  if (sums->nonzeros == 0) return true;
  const auto level = water_level(values, *sums, values_sent(values.size()), level_max);
  if (!level) return level.error();
  drawn_.level = *level;
  auto drawn = values.draw(key, *level, drawn_.selection);
  if (!drawn) return drawn.error();
  return true;
}

Result<void> Atomo::do_decode_add(BytesView payload, const Round&, float weight, at::Tensor& sum) {
  const MatrixShape shape = matrix_shape(sum.sizes());
  if (options_.atoms == "svd") {
    if (auto read = read_outer_products(payload, shape, products_read_); !read) return read;
    const OuterProducts& read = products_read_;
    return read.count > 0 ? add_outer_products(read.left, read.right, read.count, shape, weight, sum) : Result<void>();
  }
  const bool dct = options_.atoms == "dct";
  const auto kind = dct ? ValueKind::cosines : ValueKind::entries;
  const auto read = read_balanced(payload, entries_of(sum.sizes()), kind, values_read_);
  if (!read) return read.error();
  if (dct) {
    if (sum.numel() == 0) return {};
    return add_inverse(BlockGrid(shape, cosine_side_max), values_read_.selection, weight, sum);
  }
  if (!sum.is_cpu()) return device::add_selection(weight, values_read_.selection, sum);
  add_selection(weight, values_read_.selection, flat(sum));
  return {};
}

}  // namespace weir::compressors
