#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/errc.hpp"
#include "compressors/codecs/payload.hpp"
#include "compressors/kernels/random/random.hpp"
#include "support.hpp"

namespace weir::compressors::test {
namespace {

constexpr float float_max = std::numeric_limits<float>::max();

at::Tensor round_trip(const at::Tensor& x, const Round& round) {
  const auto compressor = Case{"natural", {}}.make();
  return decoded(*compressor, encoded(*compressor, x, round), x, round);
}

/// The power of two that a value is rounded to: up if the word's upper 23 bits are at least what the fraction lacks.
double rounded(float value, std::uint32_t word) {
  if (value == 0) return 0;
  const double low = std::exp2(std::floor(std::log2(std::abs(double{value}))));
  const double fraction = std::abs(double{value}) / low - 1;
  const bool up = fraction + (word >> 9) * 0x1p-23 >= 1;
  return std::copysign(up ? 2 * low : low, double{value});
}

TEST(Natural, RoundsToOneOfTheTwoPowersAround) {
  for (const std::int64_t entries : {1, 63, 64, 1'025, 150'001}) {
    at::Tensor x = heavy_tailed(entries, 1);
    x[entries / 2] = 0;
    Round round = round_at(7, 3);
    round.rank = 2;
    const RandomKey key{round.seed, round.step, round.tensor, 2};
    const at::Tensor y = round_trip(x, round);
    for (std::int64_t i = 0; i < entries; ++i) {
      const float value = x.data_ptr<float>()[i];
      ASSERT_EQ(y.data_ptr<float>()[i], rounded(value, random_word(key, static_cast<std::uint64_t>(i)))) << value;
    }
  }
}

TEST(Natural, PowersOfTwoStay) {
  std::vector<float> powers;
  for (int exponent = -40; exponent <= 80; ++exponent) {
    powers.push_back(std::ldexp(1.0F, exponent));
    powers.push_back(-std::ldexp(1.0F, exponent));
  }
  EXPECT_TRUE(at::equal(round_trip(at::tensor(powers), round_at(0)), at::tensor(powers)));
  std::vector<float> small;
  for (int exponent = -149; exponent <= -24; ++exponent) small.push_back(std::ldexp(1.0F, exponent));
  EXPECT_TRUE(at::equal(round_trip(at::tensor(small), round_at(0)), at::tensor(small))) << "down to the least float";
}

/// The mean over many rounds of `copies` equal entries beside one that makes the window.
double mean_of(float value, float largest, std::uint64_t rounds) {
  constexpr std::int64_t copies = 4'000;
  at::Tensor x = at::full({copies + 1}, value);
  x[copies] = largest;
  double sum = 0;
  for (std::uint64_t step = 0; step < rounds; ++step) {
    sum += round_trip(x, round_at(step)).slice(0, 0, copies).to(at::kDouble).sum().item<double>();
  }
  return sum / static_cast<double>(copies * rounds);
}

TEST(Natural, IsUnbiasedWithinTheWindowAndBelowIt) {
  EXPECT_NEAR(mean_of(1.3F, 1.5F, 20), 1.3, 0.01);
  // With 2^60 as the largest, 2^-66 is the least power; a quarter of that is drawn one time in four.
  const float least = std::ldexp(1.0F, -66);
  const double mean = mean_of(0.25F * least, std::ldexp(1.9F, 59), 20);
  EXPECT_NEAR(mean / least, 0.25, 0.01);
  EXPECT_NEAR(mean_of(-0.7F * least, std::ldexp(1.9F, 59), 20) / least, -0.7, 0.01);
}

TEST(Natural, BelowTheWindowThereIsItsLeastPowerOrZero) {
  at::Tensor x = at::full({1'000}, std::ldexp(1.5F, -70));
  x[3] = std::ldexp(1.5F, 59);
  const at::Tensor y = round_trip(x, round_at(0));
  const at::Tensor least = at::full({1'000}, std::ldexp(1.0F, -66));
  EXPECT_EQ(((y == 0) | (y == least)).sum().item<std::int64_t>(), 999);
}

TEST(Natural, AboveTheLastPowerThereIsTheLargestFloat) {
  const at::Tensor x = at::cat({at::full({2'000}, float_max), at::full({2'000}, -0x1.8p127F)});
  const at::Tensor y = round_trip(x, round_at(0));
  EXPECT_TRUE(at::isfinite(y).all().item<bool>());
  const double upper = (y.slice(0, 2'000) == -float_max).sum().item<double>();
  EXPECT_NEAR(upper / 2'000, 0.5, 0.06);
  EXPECT_EQ((y.slice(0, 2'000) == -0x1p127F).sum().item<double>(), 2'000 - upper);
  EXPECT_GE((y.slice(0, 0, 2'000) == float_max).sum().item<std::int64_t>(), 1'999);
}

TEST(Natural, AnEntryFarAboveTheFirstOnesMovesTheWindow) {
  at::Tensor x = gaussian(200'000, 2) * 1e-3F;
  x[150'000] = 1e30F;
  const Round round = round_at(0);
  const RandomKey key{round.seed, round.step, round.tensor, 0};
  const at::Tensor y = round_trip(x, round);
  for (const std::int64_t i : {std::int64_t{0}, std::int64_t{777}, std::int64_t{150'000}, std::int64_t{199'999}}) {
    EXPECT_EQ(y.data_ptr<float>()[i], rounded(x.data_ptr<float>()[i], random_word(key, static_cast<std::uint64_t>(i))));
  }
}

TEST(Natural, AnEntryThatIsNotFiniteIsFoundBehindTheFirstOnes) {
  at::Tensor x = gaussian(200'000, 2);
  x[150'000] = INFINITY;
  Bytes out;
  EXPECT_EQ(Case("natural", {}).make()->encode(x, round_at(0), out).error().code, Errc::invalid_argument);
}

TEST(Natural, RefusesPowersThatAFloatDoesNotHave) {
  for (const unsigned window : {0U, 151U, 152U, 255U}) {
    Bytes payload;
    PayloadWriter writer(payload, Format::natural, 2 + 1 + 256);
    const auto body = writer.body();
    body[0] = std::byte{0x80};  // 256 entries
    body[1] = std::byte{0x02};
    body[2] = static_cast<std::byte>(window);
    for (unsigned code = 0; code < 256; ++code) body[3 + code] = static_cast<std::byte>(code);
    writer.seal();
    at::Tensor sum = at::zeros({256});
    const auto done = Case("natural", {}).make()->decode_add(payload, round_at(0), 1, sum);
    EXPECT_EQ(done.has_value(), window <= 151);
    EXPECT_TRUE(at::isfinite(sum).all().item<bool>());
    if (window > 0) continue;
    EXPECT_EQ(sum[1].item<float>(), std::numeric_limits<float>::denorm_min());
  }
}

}  // namespace
}  // namespace weir::compressors::test
