#include "compressors/transforms/powersgd.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "base/errc.hpp"
#include "compressors/device/codes.hpp"
#include "compressors/device/memory_steps.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/arithmetic.hpp"
#include "compressors/kernels/random/random.hpp"
#include "compressors/kernels/selection/selection.hpp"
#include "compressors/non_finite.hpp"
#include "compressors/round_key.hpp"
#include "compressors/transforms/matrix.hpp"

namespace weir::compressors {
namespace {

/// Fills `out` with approximately Gaussian noise, good enough for a starting point: sums of twelve uniform numbers,
/// which have the same bits on every processor.
void fill_gaussian(const RandomKey& key, std::span<float> out) {
  constexpr std::size_t words = 12;
  constexpr std::size_t block = 64;
  std::array<std::uint32_t, words * block> random;
  for (std::size_t begin = 0; begin < out.size(); begin += block) {
    fill_random(key, begin * words, random);
    for (std::size_t i = 0; i < std::min(block, out.size() - begin); ++i) {
      float sum = -6;
      for (std::size_t j = 0; j < words; ++j) sum += unit_float(random[i * words + j]);
      out[begin + i] = sum;
    }
  }
}

/// Has write(matrix, factor) compute a factor of the matrix; entries that leave the range of float saturate at the
/// largest float. Returns false if the matrix itself is not finite, which shows in the factor.
template <class Write>
Result<bool> finite_factor(const at::Tensor& matrix, const Write& write, std::vector<float>& factor) {
  if (auto written = write(matrix, factor); !written) return written.error();
  if (all_finite(factor)) return true;
  if (auto finite = all_finite(matrix); !finite || !*finite) return finite;
  constexpr double scale = 0x1p64;
  if (auto written = write(matrix * (1 / scale), factor); !written) return written.error();
  constexpr double most = std::numeric_limits<float>::max();
  for (float& value : factor) value = static_cast<float>(std::clamp(scale * value, -most, most));
  return true;
}

void read_floats(BytesView bytes, std::vector<float>& values) {
  values.resize(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
}

Error wrong_size(BytesView got, std::size_t floats) {
  return Error(Errc::malformed, "a powersgd payload of " + std::to_string(got.size()) + " bytes came where " +
                                    std::to_string(floats) + " floats are due");
}

}  // namespace

protocol::Params<PowerSgd::Options> PowerSgd::params() {
  return protocol::Params<Options>()
      .integer("rank", &Options::rank, {.minimum = 1.0}, "Columns of each factor.")
      .number("min_compression_rate", &Options::min_compression_rate, {.minimum = 1.0},
              "A tensor whose factors are not this many times smaller than itself is sent as it is.")
      .flag("warm_start", &Options::warm_start,
            "Start from the last round's factor, so that the iteration goes on from round to round.")
      .integer("start_step", &Options::start_step, {.minimum = 0.0},
               "Steps at the beginning of the training in which gradients go dense, by all-reduce.");
}

Traits PowerSgd::traits() const {
  return {.passes = {Reduction::sum, Reduction::sum},
          .stateful = options_.warm_start,
          .begins_anew = true,
          .mean_only = true};
}

std::optional<MatrixShape> PowerSgd::shape_of(at::IntArrayRef sizes) const {
  if (sizes.size() < 2) return std::nullopt;
  const MatrixShape shape = matrix_shape(sizes);
  const auto whole = static_cast<double>(entries_of(sizes));
  const double factors = static_cast<double>(shape.rows + shape.columns) * static_cast<double>(options_.rank);
  if (factors * options_.min_compression_rate >= whole) return std::nullopt;
  return shape;
}

std::optional<WireBits> PowerSgd::expected_bits(at::IntArrayRef sizes, const Round&) const {
  const std::uint64_t entries = entries_of(sizes);
  if (entries == 0) return std::nullopt;
  const auto shape = shape_of(sizes);
  if (!shape) return WireBits{.summed = std::numeric_limits<double>::infinity()};
  const double numbers = static_cast<double>(shape->rows + shape->columns) * static_cast<double>(options_.rank);
  return WireBits{.summed = 32 * numbers / static_cast<double>(entries)};
}

std::optional<at::Tensor> PowerSgd::last_right(const Progress& progress, const Round& round) const {
  if (!options_.warm_start) return std::nullopt;
  auto right = progress.step == round.step ? progress.before : rights_.find(round);
  const std::array<std::int64_t, 2> due = {options_.rank, static_cast<std::int64_t>(progress.shape->columns)};
  if (!right || right->sizes() != at::IntArrayRef(due) || !all_finite(flat(std::as_const(*right)))) return std::nullopt;
  return right;
}

void PowerSgd::start(const Progress& progress, const Round& round) {
  const std::size_t columns = progress.shape->columns;
  start_.assign(rank() * columns, 0);
  if (const auto last = last_right(progress, round)) std::ranges::copy(flat(*last), start_.begin());
  normalise(start_, rank());
  noise_.clear();
  for (std::size_t j = 0; j < rank(); ++j) {
    const std::span<float> column = std::span(start_).subspan(j * columns, columns);
    if (largest_magnitude(column) != 0) continue;
    if (noise_.empty()) {
      noise_.resize(start_.size());
      fill_gaussian(key_of_all(round), noise_);
      normalise(noise_, rank());
    }
    std::ranges::copy(std::span(noise_).subspan(j * columns, columns), column.begin());
  }
}

/// Of tensors on a device, all products of a pass are begun before the first is waited for.
Result<void> PowerSgd::do_begin(std::span<const at::Tensor> gradients, std::span<const Round> rounds) {
  std::vector<std::vector<float>> starts(gradients.size());
  std::vector<device::Products::Of> all;
  std::vector<Round> of_products;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const auto shape = shape_of(gradients[i].sizes());
    if (!shape) continue;
    Progress& progress = progress_.of(rounds[i]);
    const bool second = rounds[i].pass > 0;
    if (second && progress.left.size() != rank() * shape->rows) continue;  // do_encode() says so
    if (!second) {
      progress.shape = shape;
      start(progress, rounds[i]);
      starts[i] = start_;
    }
    all.push_back({gradients[i], *shape, second ? std::span<const float>(progress.left) : starts[i], second});
    of_products.push_back(rounds[i]);
  }
  if (all.empty()) return {};
  auto begun = device::Products::begin(all, rank());
  if (!begun) return begun.error();
  const auto products = std::make_shared<const device::Products>(std::move(*begun));
  for (std::size_t i = 0; i < all.size(); ++i) begun_.put(of_products[i], {products, i});
  return {};
}

Result<void> PowerSgd::do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) {
  Progress& progress = progress_.of(round);
  const auto shape = shape_of(gradient.sizes());
  if (round.pass == 0) progress.shape = shape;
  if (!shape) return encode_whole(gradient, round, out);
  if (round.pass > 0 && progress.left.size() != rank() * shape->rows) {
    return Error(Errc::invalid_argument, "powersgd's second factor was asked for before the first was absorbed");
  }
  const Coming coming = begun_.take(round);
  const auto write = [&](const at::Tensor& matrix, std::vector<float>& factor) -> Result<void> {
    if (coming.products != nullptr && matrix.is_same(gradient)) return coming.products->read(coming.index, factor);
    if (round.pass > 0) return multiply_transposed(matrix, *shape, progress.left, rank(), factor);
    start(progress, round);
    return multiply(matrix, *shape, start_, rank(), factor);
  };
  const auto finite = finite_factor(gradient, write, factor_);
  if (!finite) return finite.error();
  if (!*finite) return non_finite(round, gradient);
  append(out, std::as_bytes(std::span(factor_)));
  return {};
}

Result<void> PowerSgd::encode_whole(const at::Tensor& gradient, const Round& round, Bytes& out) {
  if (round.pass > 0 && !gradient.is_cpu()) {
    const std::size_t before = out.size();
    out.resize(before + gradient.nbytes());
    const auto finite = device::write_entries(gradient, std::span(out).subspan(before));
    if (!finite) return finite.error();
    return *finite ? Result<void>() : non_finite(round, gradient);
  }
  const auto finite = all_finite(gradient);
  if (!finite) return finite.error();
  if (!*finite) return non_finite(round, gradient);
  if (round.pass > 0) append(out, std::as_bytes(flat(gradient)));
  return {};
}

Result<void> PowerSgd::absorb(std::span<const BytesView> results, const Round& round) {
  Progress* known = progress_.find(round);
  if (known == nullptr) {
    return Error(Errc::invalid_argument, "a sum was absorbed for a tensor that was not encoded");
  }
  Progress& progress = *known;
  if (!progress.shape) return {};
  const std::size_t due = rank() * (round.pass == 0 ? progress.shape->rows : progress.shape->columns);
  if (results.size() != 1) return Error(Errc::malformed, "powersgd takes one sum");
  if (results[0].size() != due * sizeof(float)) return wrong_size(results[0], due);
  read_floats(results[0], sum_);
  if (!all_finite(sum_)) return Error(Errc::malformed, "the sum of powersgd's factors is not finite");
  if (round.pass == 0) {
    progress.left = sum_;
    orthonormalise(progress.left, rank());
  } else if (options_.warm_start) {
    put_right(progress, round, sum_);
  }
  return {};
}

void PowerSgd::put_right(Progress& progress, const Round& round, std::span<const float> right) {
  auto unused = progress.step == round.step ? rights_.find(round) : progress.before;
  progress.before = last_right(progress, round);
  progress.step = round.step;
  const std::array<std::int64_t, 2> due = {options_.rank, static_cast<std::int64_t>(progress.shape->columns)};
  if (!unused || unused->sizes() != at::IntArrayRef(due)) unused = at::empty(due, at::kFloat);
  std::ranges::copy(right, flat(*unused).begin());
  rights_.put(round, *std::move(unused));
}

Result<void> PowerSgd::do_decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum) {
  const auto shape = shape_of(sum.sizes());
  const std::size_t due = shape ? rank() * shape->columns : entries_of(sum.sizes());
  if (payload.size() != due * sizeof(float)) return wrong_size(payload, due);
  read_floats(payload, read_);
  if (!shape) {
    if (!all_finite(read_)) return Error(Errc::malformed, "a powersgd payload holds a value that is not a number");
    if (!sum.is_cpu()) return device::add_scaled(weight, payload, sum);
    add_scaled(weight, payload, flat(sum));
    return {};
  }
  const Progress* known = progress_.find(round);
  if (known == nullptr || known->left.size() != rank() * shape->rows) {
    return Error(Errc::malformed, "a powersgd payload came without its first factor");
  }
  const std::vector<float>& left = known->left;
  if (!outer_products_are_finite(left, read_, rank())) {
    return Error(Errc::malformed, "a powersgd payload decodes to more than a float can hold");
  }
  return add_outer_products(left, read_, rank(), *shape, weight, sum);
}

std::vector<NamedTensor> PowerSgd::save() const {
  std::vector<NamedTensor> state;
  rights_.save(state);
  return state;
}

Result<void> PowerSgd::restore(std::span<const NamedTensor> state) {
  progress_.clear();
  return restore_stores(state, {&rights_});
}

}  // namespace weir::compressors
