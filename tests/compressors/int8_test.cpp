#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/errc.hpp"
#include "base/processor.hpp"
#include "compressors/codecs/payload.hpp"
#include "compressors/codecs/varint.hpp"
#include "support.hpp"

namespace weir::compressors::test {
namespace {

constexpr float float_max = std::numeric_limits<float>::max();
constexpr float denormal = std::numeric_limits<float>::denorm_min();

at::Tensor round_trip(const std::string& name, const at::Tensor& x) {
  const auto compressor = Case{name, {}}.make();
  return decoded(*compressor, encoded(*compressor, x, round_at(0)), x, round_at(0));
}

/// int8 of one channel, in doubles.
at::Tensor int8_of(const at::Tensor& row) {
  const double scale = row.abs().max().item<double>() / 127;
  return scale > 0 ? ((row.to(at::kDouble) / scale).round() * scale).to(at::kFloat) : at::zeros_like(row);
}

class Channels : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Both, Channels, ::testing::Values("int8", "uint8"),
                         [](const auto& info) { return info.param; });

TEST(Int8, RoundsToTheNearestStepOfItsChannel) {
  for (const std::int64_t columns : {1, 7, 300, 5'000}) {
    at::Tensor x = gaussian(6 * columns, 1).reshape({6, columns});
    x.mul_(at::tensor({1.0F, 1e-3F, 1e4F, 0.0F, 1e-20F, -7.0F}).reshape({6, 1}));
    const at::Tensor y = round_trip("int8", x);
    for (std::int64_t row = 0; row < 6; ++row) {
      // Halves of a step may fall to either side by the rounding of the quotient.
      const double step = x[row].abs().max().item<double>() / 127;
      EXPECT_LE((y[row] - int8_of(x[row])).abs().max().item<double>(), 1.001 * step) << columns;
      EXPECT_LE((y[row] - x[row]).abs().max().item<double>(), 0.50001 * step) << columns;
      const at::Tensor differs = (y[row] - int8_of(x[row])).abs() > 1e-3 * step;
      EXPECT_LE(differs.sum().item<std::int64_t>(), columns / 100) << columns;
    }
  }
}

TEST(Int8, OneDimensionIsOneChannel) {
  const at::Tensor x = at::cat({gaussian(100, 1), gaussian(100, 2) * 1e-4F});
  EXPECT_EQ(at::count_nonzero(round_trip("int8", x).slice(0, 100)).item<std::int64_t>(), 0);
  EXPECT_GT(at::count_nonzero(round_trip("int8", x.reshape({2, 100}))[1]).item<std::int64_t>(), 90);
}

TEST(Uint8, StepsFromTheLeastToTheLargestEntry) {
  at::Tensor x = gaussian(4 * 999, 3).reshape({4, 999});
  x[0] = x[0].abs();
  x[1] = -x[1].abs();
  x[2] = at::where(x[2] > 0, x[2], x[2] * 0.1F);
  const at::Tensor y = round_trip("uint8", x);
  for (std::int64_t row = 0; row < 4; ++row) {
    const double least = std::min(0.0, x[row].min().item<double>());
    const double most = std::max(0.0, x[row].max().item<double>());
    EXPECT_LE((y[row] - x[row]).abs().max().item<double>(), 1.01 * (most - least) / 255 / 2) << row;
  }
}

TEST_P(Channels, ZeroStaysZero) {
  const at::Tensor x = sparse(10'000, 4) + 0.7F * (sparse(10'000, 4) != 0);
  const at::Tensor y = round_trip(GetParam(), x);
  EXPECT_EQ(at::count_nonzero(y.masked_select(x == 0)).item<std::int64_t>(), 0);
}

TEST_P(Channels, LargestAndLeastFloats) {
  const at::Tensor both = at::tensor({float_max, -float_max, 0.0F, 1.0F});
  EXPECT_TRUE(at::allclose(round_trip(GetParam(), both), at::tensor({float_max, -float_max, 0.0F, 0.0F}), 0.01));
  EXPECT_TRUE(at::isfinite(round_trip(GetParam(), at::full({300}, float_max))).all().item<bool>());
  const at::Tensor tiny = at::tensor({denormal, 5 * denormal, 100 * denormal, -3 * denormal});
  EXPECT_TRUE(same_bits(round_trip(GetParam(), tiny) + 0.0F, tiny)) << "steps of the least float";
}

TEST_P(Channels, KeepsItsBoundAtTheWorstTensor) {
  const auto compressor = Case{GetParam(), {}}.make();
  at::Tensor worst = at::full({100'000}, 0.999F / 254);
  worst[5] = 1;
  worst[6] = -1;
  const double lost = squared_norm(worst - round_trip(GetParam(), worst)) / squared_norm(worst);
  const double bound = compressor->error_bound(100'000, round_at(0));
  EXPECT_LE(lost, bound);
  EXPECT_GE(lost, 0.7 * bound);
}

TEST_P(Channels, PortableLoopsGiveTheSameBits) {
  const at::Tensor x = heavy_tailed(37 * 111, 5).reshape({37, 111});
  const auto compressor = Case{GetParam(), {}}.make();
  const Bytes fast = encoded(*compressor, x, round_at(0));
  const at::Tensor y = decoded(*compressor, fast, x, round_at(0));
  const KernelsUpTo portable(Kernels::portable);
  EXPECT_EQ(encoded(*compressor, x, round_at(0)), fast);
  EXPECT_TRUE(same_bits(decoded(*compressor, fast, x, round_at(0)), y));
}

/// A payload for a tensor of three entries.
Result<void> decode(const std::string& name, float scale, std::uint8_t zero, std::uint8_t code, at::Tensor& sum) {
  const bool with_zero = name == "uint8";
  Bytes payload;
  PayloadWriter writer(payload, with_zero ? Format::uint8 : Format::int8, 8 + with_zero);
  const auto body = writer.body();
  body[0] = std::byte{3};
  store_u32(body.data() + 1, std::bit_cast<std::uint32_t>(scale));
  if (with_zero) body[5] = std::byte{zero};
  for (std::byte& it : body.last(3)) it = std::byte{code};
  writer.seal();
  return Case{name, {}}.make()->decode_add(payload, round_at(0), 1, sum);
}

TEST_P(Channels, RefusesScalesThatAreNone) {
  at::Tensor sum = at::zeros({3});
  EXPECT_TRUE(decode(GetParam(), 1.0F, 128, 129, sum));
  for (const float scale : {NAN, -NAN, INFINITY, -1.0F}) {
    EXPECT_EQ(decode(GetParam(), scale, 128, 1, sum).error().code, Errc::malformed) << scale;
  }
}

TEST_P(Channels, NoCodeDecodesToMoreThanAFloatHolds) {
  for (unsigned code = 0; code < 256; ++code) {
    at::Tensor sum = at::zeros({3});
    ASSERT_TRUE(decode(GetParam(), float_max, 127, static_cast<std::uint8_t>(code), sum));
    EXPECT_TRUE(at::isfinite(sum).all().item<bool>()) << code;
  }
}

}  // namespace
}  // namespace weir::compressors::test
