#include "compressors/transforms/atomo.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/errc.hpp"
#include "compressors/flat.hpp"
#include "compressors/transforms/atoms.hpp"
#include "compressors/transforms/matrix.hpp"
#include "compressors/transforms/rounded.hpp"
#include "compressors/transforms/water_filling.hpp"
#include "support.hpp"

namespace weir::compressors::test {
namespace {

/// The paper's algorithm, word for word: gives the probabilities in the order of the values.
std::vector<double> textbook(const std::vector<float>& values, double budget) {
  std::vector<std::size_t> order(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, [&](auto a, auto b) { return std::fabs(values[a]) > std::fabs(values[b]); });
  std::vector<double> p(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    double rest = 0;
    for (std::size_t j = order.size(); j-- > i;) rest += std::fabs(values[order[j]]);
    if (rest == 0) break;
    if (std::fabs(values[order[i]]) * budget <= rest) {
      for (std::size_t k = i; k < order.size(); ++k) p[order[k]] = budget * std::fabs(values[order[k]]) / rest;
      break;
    }
    p[order[i]] = 1;
    budget -= 1;
  }
  return p;
}

/// sum x^2 (1 / p - 1), the variance of drawing with these probabilities.
double variance(const std::vector<float>& values, const std::vector<double>& p) {
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (values[i] != 0) sum += static_cast<double>(values[i]) * values[i] * (1 / p[i] - 1);
  }
  return sum;
}

std::vector<float> listed(const at::Tensor& x) { return {flat(x).begin(), flat(x).end()}; }

std::vector<double> probabilities(const std::vector<float>& values, double budget) {
  const HostValues all(values, {});
  const float level = water_level(all, all.magnitude_sums(MagnitudeSums::of_all).value(), budget).value();
  std::vector<double> p;
  for (const float value : values) p.push_back(probability(value, level));
  return p;
}

double total(const std::vector<double>& p) {
  double sum = 0;
  for (const double it : p) sum += it;
  return sum;
}

std::vector<float> halving(std::size_t count) {
  std::vector<float> values;
  for (std::size_t i = 1; i <= count; ++i) values.push_back(std::ldexp(1.0F, -static_cast<int>(i)));
  return values;
}

TEST(WaterFilling, IsThePapersAlgorithm) {
  const std::vector<std::vector<float>> lists = {listed(gaussian(700, 1)),
                                                 listed(heavy_tailed(700, 2)),
                                                 listed(sparse(700, 3)),
                                                 halving(60),
                                                 {3, -3, 3, -3},
                                                 listed(at::exp(gaussian(700, 4) * 6)),
                                                 {5},
                                                 {0, 0, 1e-30F, 1e30F, 2}};
  for (std::size_t i = 0; i < lists.size(); ++i) {
    const double nonzeros = static_cast<double>(std::ranges::count_if(lists[i], [](float x) { return x != 0; }));
    for (const double budget : {0.3, 1.0, 3.0, 7.5, 30.0, 65.0, 400.0}) {
      const std::vector<double> p = probabilities(lists[i], budget);
      EXPECT_NEAR(total(p), std::min(budget, nonzeros), 1e-5 * budget) << "list " << i << ", budget " << budget;
      const std::vector<double> expected = textbook(lists[i], budget);
      for (std::size_t j = 0; budget < nonzeros && j < p.size(); ++j) {
        ASSERT_NEAR(p[j], expected[j], 1e-5) << "list " << i << ", budget " << budget;
      }
    }
  }
}

// Probabilities that are clipped once send 2.5 atoms instead of 3 here, with twice the variance; of 8 only 4, with 256
// times the variance.
TEST(WaterFilling, SpendsTheWholeBudgetOnASteepSpectrum) {
  const std::vector<float> values = halving(24);
  for (const auto& [budget, sent, worse] : {std::tuple(3.0, 2.5, 2.0), std::tuple(8.0, 4.0, 200.0)}) {
    std::vector<double> clipped;
    double sum = 0;
    for (const float value : values) sum += value;
    for (const float value : values) clipped.push_back(std::min(1.0, budget * value / sum));
    const std::vector<double> p = probabilities(values, budget);
    EXPECT_NEAR(total(clipped), sent, 0.01);
    EXPECT_NEAR(total(p), budget, 1e-6);
    EXPECT_GT(variance(values, clipped), 0.99 * worse * variance(values, p));
  }
}

TEST(WaterFilling, HoldsForManyValues) {
  for (const at::Tensor& x : {gaussian(300'000, 1), heavy_tailed(300'000, 2), at::pow(heavy_tailed(300'000, 3), 5)}) {
    const std::vector<float> values = listed(x);
    for (const double budget : {30.0, 3'000.0, 100'000.0}) {
      EXPECT_NEAR(total(probabilities(values, budget)) / budget, 1, 1e-6);
    }
  }
}

TEST(WaterFilling, SmallProbabilitiesAreExact) {
  const auto never = [] { return 0xFFFFFFFFU; };
  EXPECT_TRUE(happens(1, 0xFFFFFFFFU, never));
  EXPECT_FALSE(happens(0, 0, [] { return 0U; }));
  EXPECT_TRUE(happens(0.5, 0x7FFFFFFFU, never));
  EXPECT_FALSE(happens(0.5, 0x80000000U, [] { return 0U; }));
  EXPECT_TRUE(happens(0x1p-34, 0, [] { return 0x3FFFFFFFU; })) << "a quarter of the second words";
  EXPECT_FALSE(happens(0x1p-34, 0, [] { return 0x40000000U; }));
  EXPECT_FALSE(happens(0x1p-34, 1, [] { return 0U; }));
}

std::size_t atoms_in(const Atomo::Options& options, const Bytes& payload, const at::Tensor& x) {
  if (options.atoms == "svd") {
    OuterProducts products;
    read_outer_products(payload, matrix_shape(x.sizes()), products).value();
    return products.count;
  }
  DrawnValues drawn;
  const auto kind = options.atoms == "dct" ? ValueKind::cosines : ValueKind::entries;
  read_balanced(payload, static_cast<std::uint64_t>(x.numel()), kind, drawn).value();
  return drawn.selection.size();
}

/// Means over many rounds.
struct Averages {
  double atoms = 0;
  double squared_error = 0;
  double error_of_that = 0;  ///< its standard error
  double none = 0;           ///< share of rounds that sent nothing

  Averages(const Atomo::Options& options, const at::Tensor& x, int draws) {
    Atomo atomo(options);
    std::vector<double> errors;
    for (int i = 0; i < draws; ++i) {
      const Round round = round_at(static_cast<std::uint64_t>(i));
      const Bytes payload = encoded(atomo, x, round);
      const std::size_t count = atoms_in(options, payload, x);
      atoms += static_cast<double>(count) / draws;
      none += (count == 0 ? 1.0 : 0.0) / draws;
      errors.push_back(squared_norm(x - decoded(atomo, payload, x, round)));
      squared_error += errors.back() / draws;
    }
    for (const double error : errors) error_of_that += std::pow((error - squared_error) / draws, 2);
    error_of_that = std::sqrt(error_of_that);
  }
};

TEST(Atomo, SendsTheBudgetAtTheLeastVarianceOfBalancedAtoms) {
  const at::Tensor x = gaussian(1'200, 1).reshape({30, 40});
  const double l2 = squared_norm(x);
  const at::Tensor singular = std::get<1>(at::linalg_svd(x.to(at::kDouble), false));
  const double nuclear = singular.sum().item<double>();
  const double l1 = x.abs().sum().item<double>();
  const Averages svd({.atoms = "svd", .budget = 3}, x, 1'500);
  EXPECT_NEAR(svd.atoms, 3, 0.25);
  EXPECT_NEAR(svd.squared_error, nuclear * nuclear / 3 - l2, 5 * svd.error_of_that);
  const Averages entries({.atoms = "entrywise", .ratio = 0.05}, x, 1'500);
  EXPECT_NEAR(entries.atoms, 60, 1.1);
  EXPECT_NEAR(entries.squared_error, l1 * l1 / 60 - l2, 5 * entries.error_of_that);
  EXPECT_LT(5 * entries.error_of_that, 0.05 * entries.squared_error) << "the figure says something";
  EXPECT_LT(5 * svd.error_of_that, 0.1 * svd.squared_error);
}

TEST(Atomo, SteepSpectraHaveTheLeastVarianceToo) {
  const auto [u, s, v] = at::linalg_svd(gaussian(1'200, 1).reshape({30, 40}), false);
  const std::vector<float> spectrum = halving(30);
  const at::Tensor steep = (u * at::tensor(spectrum)).mm(v);
  for (const at::Tensor& x : {steep, steep.t().contiguous(), (steep * 1e-36F), (steep * 1e36F)}) {
    const double scale = squared_norm(x) / squared_norm(steep);
    const Averages drawn({.atoms = "svd", .budget = 3}, x, 800);
    EXPECT_NEAR(drawn.atoms, 3, 0.2);
    const double least = variance(spectrum, textbook(spectrum, 3)) * scale;
    EXPECT_NEAR(drawn.squared_error, least, 5 * drawn.error_of_that + 0.01 * least);
  }
}

// Who draws again until something is drawn scales what then comes by too much.
TEST(Atomo, ARoundMayDrawNothing) {
  const Averages svd({.atoms = "svd", .budget = 0.2}, gaussian(200, 1).reshape({10, 20}), 1'000);
  EXPECT_NEAR(svd.atoms, 0.2, 0.07);
  EXPECT_NEAR(svd.none, std::exp(-0.2), 0.07);
}

TEST(Atomo, EveryAtomTogetherIsTheGradient) {
  for (const auto& sizes : std::vector<std::vector<std::int64_t>>{{3, 50}, {50, 3}, {1, 9}, {2, 3, 4, 5}, {77}, {}}) {
    std::int64_t entries = 1;
    for (const std::int64_t size : sizes) entries *= size;
    const at::Tensor x = gaussian(entries, 1).reshape(sizes);
    Atomo atomo({});
    EXPECT_TRUE(same_bits(decoded(atomo, encoded(atomo, x, round_at(0)), x, round_at(0)), x)) << x.sizes();
    Atomo cosines({.atoms = "dct", .ratio = 1});
    EXPECT_TRUE(at::allclose(decoded(cosines, encoded(cosines, x, round_at(0)), x, round_at(0)), x, 1e-5, 1e-6));
  }
}

TEST(Atomo, MatricesOfLowRankAreUnbiased) {
  const at::Tensor x = gaussian(40, 1).reshape({20, 2}).mm(gaussian(60, 2).reshape({2, 30}));
  Atomo atomo({.budget = 1});
  at::Tensor mean = at::zeros({20, 30});
  for (std::uint64_t step = 0; step < 2'000; ++step) {
    mean += decoded(atomo, encoded(atomo, x, round_at(step)), x, round_at(step)) / 2'000;
  }
  EXPECT_LT(squared_norm(mean - x), 0.003 * squared_norm(x));
}

TEST(Atomo, BalancedEntriesTakeOneBitAndAPosition) {
  const at::Tensor x = gaussian(100'000, 1);
  Atomo atomo({.atoms = "entrywise", .ratio = 0.01});
  const Bytes payload = encoded(atomo, x, round_at(0));
  DrawnValues drawn;
  ASSERT_TRUE(read_balanced(payload, 100'000, ValueKind::entries, drawn));
  EXPECT_NEAR(drawn.level, x.abs().sum().item<double>() / 1'000, 1e-4 * drawn.level);
  for (std::size_t i = 0; i < drawn.selection.size(); ++i) {
    const float sent = drawn.selection.values[i];
    ASSERT_EQ(sent, std::copysign(drawn.level, x.data_ptr<float>()[drawn.selection.positions[i]]));
  }
  EXPECT_LT(static_cast<double>(payload.size()) * 8, 10.5 * static_cast<double>(drawn.selection.size()) + 300);
}

TEST(Atomo, LargeEntriesAreSentAsTheyAre) {
  at::Tensor x = gaussian(20'000, 1) * 0.01F;
  for (const std::int64_t at : {7, 900, 19'999}) x[at] = 100 + at;
  Atomo atomo({.atoms = "entrywise"});
  const at::Tensor y = decoded(atomo, encoded(atomo, x, round_at(0)), x, round_at(0));
  for (const std::int64_t at : {7, 900, 19'999}) EXPECT_EQ(y[at].item<float>(), x[at].item<float>());
}

TEST(Atomo, RanksDrawOnTheirOwn) {
  const at::Tensor x = gaussian(5'000, 1);
  Atomo atomo({.atoms = "entrywise"});
  Round other = round_at(0);
  other.rank = 1;
  EXPECT_NE(encoded(atomo, x, round_at(0)), encoded(atomo, x, other));
}

TEST(Atomo, RefusesOneBit) {
  EXPECT_EQ(builtin().make_compressor("atomo", {{"quantize_bits", 1}}).error().code, Errc::invalid_argument);
  EXPECT_TRUE(builtin().make_compressor("atomo", {{"quantize_bits", 2}}));
}

TEST(Rounded, KeepsTheMeanAndItsVariance) {
  const std::vector<float> x = listed(heavy_tailed(600, 1));
  for (const unsigned bits : {0U, 2U, 4U, 8U}) {
    constexpr int draws = 2'000;
    Bytes bytes(rounded_bytes(x.size(), bits));
    std::vector<double> mean(x.size());
    double error = 0;
    double norm = 0;
    for (int draw = 0; draw < draws; ++draw) {
      write_rounded(x, bits, {.seed = 1, .step = static_cast<std::uint64_t>(draw)}, 64, bytes);
      std::vector<float> y(x.size());
      ASSERT_TRUE(read_rounded(bytes, bits, y));
      for (std::size_t i = 0; i < x.size(); ++i) {
        mean[i] += static_cast<double>(y[i]) / draws;
        error += std::pow(static_cast<double>(y[i]) - x[i], 2) / draws;
      }
    }
    double bias = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      norm += static_cast<double>(x[i]) * x[i];
      bias += std::pow(mean[i] - x[i], 2);
    }
    EXPECT_LE(error, rounding_variance(bits) * norm) << bits;
    EXPECT_LE(bias, 1.5 * error / draws + 1e-12) << bits;
  }
}

TEST(Rounded, RefusesWhatNothingIsRoundedTo) {
  const std::vector<float> x = {1, -1, 0.5F};
  Bytes bytes(rounded_bytes(3, 4));
  write_rounded(x, 4, {}, 0, bytes);
  std::vector<float> y(3);
  ASSERT_TRUE(read_rounded(bytes, 4, y));
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], -1);
  const auto spoilt = [&](std::size_t at, unsigned value) {
    Bytes other = bytes;
    other[at] = static_cast<std::byte>(value);
    const auto read = read_rounded(other, 4, y);
    return read ? boost::system::error_code() : read.error().code;
  };
  EXPECT_FALSE(spoilt(3, 0x7E).failed()) << "8.5e37 is a scale";
  EXPECT_EQ(spoilt(3, 0xBF), Errc::malformed) << "a negative scale";
  EXPECT_EQ(spoilt(4, 0xFF), Errc::malformed) << "level 15 of 14";
  EXPECT_EQ(spoilt(5, 0x17), Errc::malformed) << "padding";
  const float infinite = std::numeric_limits<float>::infinity();
  std::memcpy(bytes.data(), &infinite, sizeof infinite);
  EXPECT_EQ(read_rounded(bytes, 4, y).error().code, Errc::malformed);
}

}  // namespace
}  // namespace weir::compressors::test
