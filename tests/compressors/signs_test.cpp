#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/errc.hpp"
#include "base/processor.hpp"
#include "compressors/codecs/payload.hpp"
#include "compressors/codecs/varint.hpp"
#include "compressors/kernels/quantization/signs.hpp"
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

/// What a coin says of entry `i` in a round, of a rank or, for a tie, of all.
constexpr std::uint16_t of_all = 0xFFFF;
float coin(std::int64_t i, const Round& round, std::uint16_t stream) {
  const RandomKey key{round.seed, round.step, round.tensor, stream};
  return random_word(key, static_cast<std::uint64_t>(i / 16)) >> i % 16 & 1 ? -1.0F : 1.0F;
}

at::Tensor with_coins(at::Tensor signs, const at::Tensor& x, const Round& round, std::uint16_t stream) {
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    if (x.data_ptr<float>()[i] == 0) signs[i] = coin(i, round, stream);
  }
  return signs;
}

/// What the ranks agree on, each with its gradient.
at::Tensor agreed(const std::vector<at::Tensor>& gradients, Round round) {
  const auto compressor = Case{"signsgd", {}}.make();
  round.world = static_cast<std::uint32_t>(gradients.size());
  at::Tensor mean = at::zeros_like(gradients[0]);
  for (const at::Tensor& gradient : gradients) {
    const Bytes payload = encoded(*compressor, gradient, round);
    compressor->decode_add(payload, round, 1 / static_cast<float>(gradients.size()), mean).value();
    ++round.rank;
  }
  at::Tensor other = mean.clone();
  compressor->conclude(mean, round).value();
  round.rank = 0;
  compressor->conclude(other, round).value();
  EXPECT_TRUE(same_bits(other, mean)) << "on every rank";
  return mean;
}

TEST(SignSgd, SendsOneBitPerEntryAndACoinForZero) {
  for (const std::int64_t entries : lengths) {
    const at::Tensor x = with_zeros(entries);
    Round round = round_at(5, 2);
    round.rank = 3;
    const auto compressor = Case{"signsgd", {}}.make();
    const Bytes payload = encoded(*compressor, x, round);
    EXPECT_TRUE(at::equal(decoded(*compressor, payload, x, round), with_coins(signs_of(x), x, round, 3))) << entries;
    EXPECT_LE(payload.size(), static_cast<std::size_t>(entries + 7) / 8 + payload_header_bytes_max + 5);
  }
}

TEST(SignSgd, TheMajorityDecidesAndACoinATie) {
  // Sums of a rounded 1/n: for each number of ranks every possible outcome.
  for (std::int64_t ranks = 1; ranks <= 40; ++ranks) {
    std::vector<at::Tensor> votes;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      votes.push_back(at::where(at::arange(ranks + 1) > rank, 0.37F, -0.37F));
    }
    const at::Tensor sum = at::arange(ranks + 1) * 2.0F - static_cast<float>(ranks);
    EXPECT_TRUE(at::equal(agreed(votes, round_at(7)), with_coins(signs_of(sum), sum, round_at(7), of_all)))
        << ranks << " ranks";
  }
}

/// Mean of what is agreed over all entries and some rounds.
double mean_vote(const std::vector<at::Tensor>& gradients) {
  constexpr std::uint64_t rounds = 50;
  double mean = 0;
  for (std::uint64_t step = 0; step < rounds; ++step) {
    mean += agreed(gradients, round_at(step)).mean().item<double>() / rounds;
  }
  return mean;
}

// A million coins are off by 0.001; five times that is granted.
TEST(SignSgd, WhatHasNoGradientIsNotDriven) {
  constexpr std::int64_t entries = 20'000;
  const at::Tensor dead = at::zeros({entries});
  const at::Tensor up = at::ones({entries});
  for (std::size_t ranks = 1; ranks <= 4; ++ranks) {
    EXPECT_NEAR(mean_vote(std::vector(ranks, dead)), 0, 0.005) << ranks << " ranks";
  }
  // One that knows pulls one that does not: half of the coins agree with it, and half of the ties do.
  EXPECT_NEAR(mean_vote({dead, up}), 0.5, 0.005);
  EXPECT_NEAR(mean_vote({dead, -up}), -0.5, 0.005);
  EXPECT_NEAR(mean_vote({up, -up}), 0, 0.005);
  EXPECT_NEAR(mean_vote({dead, dead, up}), 0.5, 0.005) << "unless both are against it";
  // Neither do the coins of neighbours go together, nor those of one entry in following rounds.
  at::Tensor sum = at::zeros({entries});
  for (std::uint64_t step = 0; step < 100; ++step) sum += agreed({dead}, round_at(step));
  EXPECT_NEAR(sum.square().mean().item<double>(), 100, 5);
  const at::Tensor votes = agreed({dead}, round_at(0));
  for (const std::int64_t lag : {1, 8, 16, 128, 144}) {
    const std::int64_t length = entries - lag;
    EXPECT_NEAR((votes.narrow(0, 0, length) * votes.narrow(0, lag, length)).mean().item<double>(), 0, 0.04) << lag;
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

TEST(Signum, MomentumOfZeroVotesByACoin) {
  const at::Tensor x = with_zeros(20'003);
  Round round = round_at(3, 4);
  round.rank = 2;
  const auto compressor = Case{"signum", {}}.make();
  EXPECT_TRUE(
      at::equal(decoded(*compressor, encoded(*compressor, x, round), x, round), with_coins(signs_of(x), x, round, 2)));
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
    Bytes fast_votes = fast;
    Bytes portable_votes = fast;
    const RandomKey coins{.seed = 3, .stream = 1};
    SignSums fast_sums;
    SignSums portable_sums;
    at::Tensor fast_to = gaussian(entries, 9);
    at::Tensor portable_to = fast_to.clone();
    const auto add_to = [&](at::Tensor& to) { add_by_sign(fast, 0.3F, -0.7F, {to.data_ptr<float>(), values.size()}); };
    EXPECT_TRUE(write_signs(values, fast, fast_sums));
    EXPECT_TRUE(write_signs(values, without_sums));
    EXPECT_TRUE(write_votes(values, 2 * vote_block, coins, fast_votes));
    add_to(fast_to);
    {
      const KernelsUpTo kernels(Kernels::portable);
      EXPECT_TRUE(write_signs(values, portable, portable_sums));
      EXPECT_TRUE(write_votes(values, 2 * vote_block, coins, portable_votes));
      add_to(portable_to);
    }
    EXPECT_EQ(fast, portable);
    EXPECT_EQ(fast, without_sums);
    EXPECT_EQ(fast_votes, portable_votes);
    EXPECT_EQ(fast_sums.positive, portable_sums.positive);
    EXPECT_EQ(fast_sums.negative, portable_sums.negative);
    EXPECT_EQ(fast_sums.negatives, portable_sums.negatives);
    EXPECT_TRUE(same_bits(fast_to, portable_to));
  }
}

}  // namespace
}  // namespace weir::compressors::test
