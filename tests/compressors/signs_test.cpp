#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/errc.hpp"
#include "base/processor.hpp"
#include "compressors/codecs/payload.hpp"
#include "compressors/codecs/varint.hpp"
#include "compressors/kernels/signs.hpp"
#include "support.hpp"

namespace weir::compressors::test {
namespace {

constexpr float float_max = std::numeric_limits<float>::max();
constexpr std::int64_t lengths[] = {1, 7, 8, 31, 33, 4'096, 4'099, 20'003};

at::Tensor round_trip(const std::string& name, const at::Tensor& x) {
  const auto compressor = Case{name, {}}.make();
  return decoded(*compressor, encoded(*compressor, x, round_at(0)), x, round_at(0));
}

/// With zeros of both signs among the entries.
at::Tensor with_zeros(std::int64_t entries) {
  at::Tensor x = gaussian(entries, 5);
  for (std::int64_t i = 0; i < entries; i += 3) x[i] = i % 2 == 0 ? 0.0F : -0.0F;
  return x;
}

at::Tensor signs_of(const at::Tensor& x) { return at::where(x < 0, -1.0F, 1.0F); }

/// One rank's sign of each of some entries.
using Votes = std::vector<float>;

/// What the ranks agree on.
at::Tensor agreed(const std::vector<Votes>& votes) {
  const auto compressor = Case{"signsgd", {}}.make();
  Round round = round_at(0);
  round.world = static_cast<std::uint32_t>(votes.size());
  at::Tensor mean = at::zeros({static_cast<std::int64_t>(votes[0].size())});
  for (const Votes& vote : votes) {
    const Bytes payload = encoded(*compressor, at::tensor(vote) * 0.37F, round);
    compressor->decode_add(payload, round, 1 / static_cast<float>(votes.size()), mean).value();
  }
  compressor->conclude(mean, round);
  return mean;
}

TEST(SignSgd, SendsOneBitPerEntry) {
  for (const std::int64_t entries : lengths) {
    const at::Tensor x = with_zeros(entries);
    EXPECT_TRUE(at::equal(round_trip("signsgd", x), signs_of(x))) << entries;
    const Bytes payload = encoded(*Case{"signsgd", {}}.make(), x, round_at(0));
    EXPECT_LE(payload.size(), static_cast<std::size_t>(entries + 7) / 8 + payload_header_bytes_max + 5);
  }
}

TEST(SignSgd, TheMajorityDecidesAndATieIsZero) {
  EXPECT_TRUE(at::equal(agreed({{1, -1, 1}, {1, -1, -1}}), at::tensor({1.0F, -1.0F, 0.0F})));
  // Sums of a rounded 1/n: for each number of ranks every possible outcome.
  for (std::size_t ranks = 1; ranks <= 40; ++ranks) {
    std::vector<Votes> votes(ranks, Votes(ranks + 1));
    std::vector<float> expected;
    for (std::size_t yes = 0; yes <= ranks; ++yes) {
      for (std::size_t rank = 0; rank < ranks; ++rank) votes[rank][yes] = rank < yes ? 1.0F : -1.0F;
      expected.push_back(2 * yes == ranks ? 0.0F : 2 * yes > ranks ? 1.0F : -1.0F);
    }
    EXPECT_TRUE(at::equal(agreed(votes), at::tensor(expected))) << ranks << " ranks";
  }
}

TEST(SignSgd, RefusesBitsBehindTheLastEntry) {
  const auto compressor = Case{"signsgd", {}}.make();
  Bytes payload;
  PayloadWriter writer(payload, Format::signs, 3);
  writer.body()[0] = std::byte{9};
  writer.body()[2] = std::byte{2};  // nine entries: one bit is used
  writer.seal();
  at::Tensor sum = at::zeros({9});
  EXPECT_EQ(compressor->decode_add(payload, round_at(0), 1, sum).error().code, Errc::malformed);
}

TEST(Signum, SendsTheSignOfMomentum) {
  const auto compressor = Case{"signum", {{"momentum", 0.75}}}.make();
  at::Tensor momentum = at::zeros({20, 307});
  for (std::uint64_t step = 0; step < 6; ++step) {
    const at::Tensor gradient = gaussian(20 * 307, step).reshape({20, 307});
    momentum = 0.75F * momentum + 0.25F * gradient;
    const at::Tensor y = decoded(*compressor, encoded(*compressor, gradient, round_at(step)), gradient, round_at(step));
    ASSERT_TRUE(at::equal(y, signs_of(momentum))) << "step " << step;
  }
  const std::vector<NamedTensor> state = compressor->save();
  ASSERT_EQ(state.size(), 1);
  EXPECT_EQ(state[0].name, "momentum.0");
  EXPECT_TRUE(at::allclose(state[0].tensor, momentum));
}

TEST(Signum, KeepsTheMomentumOfEachTensor) {
  const auto compressor = Case{"signum", {}}.make();
  const at::Tensor x = gaussian(100, 1);
  encoded(*compressor, x, round_at(0, 1));
  encoded(*compressor, -10 * x, round_at(0, 2));
  encoded(*compressor, -x, round_at(1, 1));
  at::Tensor y = at::zeros({100});
  compressor->decode_add(encoded(*compressor, at::zeros({100}), round_at(2, 1)), round_at(2, 1), 1, y).value();
  // 0.9 * (0.9 * 0.1 x - 0.1 x) is against x.
  EXPECT_TRUE(at::equal(y, signs_of(-x)));
}

TEST(EfSignSgd, SendsSignsTimesTheMeanMagnitude) {
  for (const std::int64_t entries : lengths) {
    const at::Tensor x = with_zeros(entries);
    const at::Tensor mean = x.to(at::kDouble).abs().mean().to(at::kFloat);
    EXPECT_TRUE(at::allclose(round_trip("efsignsgd", x), signs_of(x) * mean, 1e-6, 0)) << entries;
  }
  const at::Tensor largest = at::full({4'096}, -float_max);
  EXPECT_TRUE(at::equal(round_trip("efsignsgd", largest), largest)) << "no overflow";
}

TEST(EfSignSgd, ErrsByWhatTheNormsSay) {
  const at::Tensor x = heavy_tailed(10'000, 2);
  const double l1 = x.to(at::kDouble).abs().sum().item<double>();
  EXPECT_NEAR(squared_norm(x - round_trip("efsignsgd", x)), squared_norm(x) - l1 * l1 / 10'000, 1e-4 * squared_norm(x));
  at::Tensor worst = at::zeros({1'000});
  worst[17] = -2.0F;
  const double bound = Case("efsignsgd", {}).make()->error_bound(1'000, round_at(0));
  EXPECT_NEAR(squared_norm(worst - round_trip("efsignsgd", worst)) / 4, bound, 1e-6);
}

TEST(OneBit, SendsTheMeanOfEachSign) {
  for (const std::int64_t entries : lengths) {
    const at::Tensor x = with_zeros(entries) + 0.5F * (gaussian(entries, 6) > 1.5F);
    const at::Tensor below = x < 0;
    at::Tensor expected = at::zeros_like(x);
    double sums[2] = {0, 0};
    double counts[2] = {0, 0};
    for (std::int64_t i = 0; i < entries; ++i) {
      const float value = x.data_ptr<float>()[i];
      sums[value < 0] += value;
      counts[value < 0] += 1;
    }
    for (std::int64_t i = 0; i < entries; ++i) {
      const int side = x.data_ptr<float>()[i] < 0;
      expected.data_ptr<float>()[i] = static_cast<float>(sums[side] / counts[side]);
    }
    EXPECT_TRUE(at::allclose(round_trip("onebit", x), expected, 1e-6, 0)) << entries;
  }
}

TEST(OneBit, OfOneSignOnlyKeepsFiniteValues) {
  EXPECT_TRUE(at::equal(round_trip("onebit", at::full({50}, -2.5F)), at::full({50}, -2.5F)));
  EXPECT_TRUE(at::equal(round_trip("onebit", at::full({50}, float_max)), at::full({50}, float_max)));
  EXPECT_TRUE(at::equal(round_trip("onebit", at::zeros({50})), at::zeros({50})));
}

Bytes two_values(float positive, float negative, std::uint8_t last_bits) {
  Bytes payload;
  PayloadWriter writer(payload, Format::two_values, 11);
  writer.body()[0] = std::byte{9};
  store_u32(writer.body().data() + 1, std::bit_cast<std::uint32_t>(positive));
  store_u32(writer.body().data() + 5, std::bit_cast<std::uint32_t>(negative));
  writer.body()[10] = std::byte{last_bits};
  writer.seal();
  return payload;
}

TEST(TwoValues, RefusesWhatNobodyWrites) {
  for (const char* name : {"efsignsgd", "onebit"}) {
    const auto compressor = Case{name, {}}.make();
    at::Tensor sum = at::zeros({9});
    EXPECT_TRUE(compressor->decode_add(two_values(1, -1, 1), round_at(0), 1, sum));
    for (const Bytes& bad : {two_values(INFINITY, -1, 1), two_values(1, NAN, 1), two_values(1, -1, 2)}) {
      EXPECT_EQ(compressor->decode_add(bad, round_at(0), 1, sum).error().code, Errc::malformed);
    }
  }
}

TEST(SignKernels, PortableLoopsGiveTheSameBits) {
  for (const std::int64_t entries : lengths) {
    const at::Tensor x = with_zeros(entries) * 1e3F;
    const std::span<const float> values(x.data_ptr<float>(), static_cast<std::size_t>(entries));
    Bytes fast(sign_bytes(values.size()));
    Bytes portable = fast;
    Bytes without_sums = fast;
    SignSums fast_sums;
    SignSums portable_sums;
    at::Tensor fast_to = gaussian(entries, 9);
    at::Tensor portable_to = fast_to.clone();
    const auto add_to = [&](at::Tensor& to) { add_by_sign(fast, 0.3F, -0.7F, {to.data_ptr<float>(), values.size()}); };
    EXPECT_TRUE(write_signs(values, fast, fast_sums));
    EXPECT_TRUE(write_signs(values, without_sums));
    add_to(fast_to);
    {
      const KernelsUpTo kernels(Kernels::portable);
      EXPECT_TRUE(write_signs(values, portable, portable_sums));
      add_to(portable_to);
    }
    EXPECT_EQ(fast, portable);
    EXPECT_EQ(fast, without_sums);
    EXPECT_EQ(fast_sums.positive, portable_sums.positive);
    EXPECT_EQ(fast_sums.negative, portable_sums.negative);
    EXPECT_EQ(fast_sums.negatives, portable_sums.negatives);
    EXPECT_TRUE(same_bits(fast_to, portable_to));
  }
}

}  // namespace
}  // namespace weir::compressors::test
