#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/errc.hpp"
#include "compressors/codecs/payload.hpp"
#include "compressors/codecs/varint.hpp"
#include "compressors/kernels/quantization/quantize.hpp"
#include "compressors/kernels/random/random.hpp"
#include "support.hpp"

namespace weir::compressors::test {
namespace {

constexpr float float_max = std::numeric_limits<float>::max();

std::unique_ptr<Compressor> make(const nlohmann::json& params) { return Case{"terngrad", params}.make(); }

at::Tensor round_trip(const at::Tensor& x, const nlohmann::json& params, const Round& round) {
  const auto compressor = make(params);
  return decoded(*compressor, encoded(*compressor, x, round), x, round);
}

/// TernGrad in doubles. An entry whose draw is too close to call is NaN.
std::vector<double> reference(const at::Tensor& x, double limit, double scale, const RandomKey& key) {
  std::vector<double> y;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const double value = x.data_ptr<float>()[i];
    const double chance = scale > 0 ? std::min(std::abs(value), limit) / scale : 0;
    const double draw = unit_float(random_word(key, static_cast<std::uint64_t>(i)));
    y.push_back(std::abs(draw - chance) < 1e-6 ? NAN : draw < chance ? std::copysign(scale, value) : 0);
  }
  return y;
}

double sigma(const at::Tensor& x) { return std::sqrt(squared_norm(x) / static_cast<double>(x.numel())); }

void expect_near(const at::Tensor& y, const std::vector<double>& due) {
  std::int64_t unsure = 0;
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const double expected = due[static_cast<std::size_t>(i)];
    unsure += std::isnan(expected);
    if (!std::isnan(expected)) {
      ASSERT_NEAR(y.data_ptr<float>()[i], expected, 1e-6 * std::abs(expected)) << "entry " << i;
    }
  }
  EXPECT_LE(unsure, 1 + y.numel() / 1'000);
}

TEST(TernGrad, DrawsSignsTimesTheScale) {
  for (const std::int64_t entries : {1, 4, 5, 319, 320, 321, 643, 100'003}) {
    const at::Tensor x = gaussian(entries, 1) * 0.01F;
    Round round = round_at(5, 6);
    round.rank = 3;
    const RandomKey key{round.seed, round.step, round.tensor, 3};
    const double largest = x.abs().max().item<double>();
    const double clipped = std::min(largest, 2.5 * sigma(x));
    for (const char* scale : {"local", "shared"}) {
      expect_near(round_trip(x, {{"scale", scale}}, round), reference(x, clipped, clipped, key));
      expect_near(round_trip(x, {{"scale", scale}, {"clip", 0}}, round), reference(x, largest, largest, key));
    }
  }
}

TEST(TernGrad, AConstantTensorIsNotLost) {
  for (const float value : {-3.0F, 1e-40F, float_max}) {
    const at::Tensor x = at::full({400}, value);
    EXPECT_TRUE(at::allclose(round_trip(x, {}, round_at(0)), x, 1e-6, 0)) << value;
  }
}

struct Rank {
  std::unique_ptr<Compressor> compressor = make({});
  at::Tensor gradient;
  Bytes payload;
};

TEST(TernGrad, RanksShareTheLargestScale) {
  std::vector<Rank> ranks(3);
  Round round = round_at(4, 9);
  round.world = 3;
  double largest = 0;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].gradient = gaussian(5'000, rank) * (rank == 1 ? 1.0F : 0.1F);
    largest =
        std::max(largest, std::min(2.5 * sigma(ranks[rank].gradient), ranks[rank].gradient.abs().max().item<double>()));
  }
  for (round.pass = 0; round.pass < 2; ++round.pass) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      round.rank = static_cast<std::uint32_t>(rank);
      ranks[rank].payload.clear();
      ranks[rank].compressor->encode(ranks[rank].gradient, round, ranks[rank].payload).value();
    }
    if (round.pass == 1) break;
    Bytes most = ranks[0].payload;
    for (const Rank& rank : ranks) {
      ASSERT_EQ(rank.payload.size(), sizeof(float)) << "nothing but the number";
      if (load_f32(rank.payload.data()) > load_f32(most.data())) most = rank.payload;
    }
    const BytesView result = most;
    for (const Rank& rank : ranks) rank.compressor->absorb(std::span(&result, 1), round).value();
  }
  round.pass = 1;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    // Another rank reads it alone: the payload carries its scale.
    at::Tensor y = at::zeros({5'000});
    make({})->decode_add(ranks[rank].payload, round, 1, y).value();
    const double limit = 2.5 * sigma(ranks[rank].gradient);
    expect_near(y, reference(ranks[rank].gradient, limit, largest,
                             {round.seed, round.step, round.tensor, static_cast<std::uint16_t>(rank)}));
  }
}

TEST(TernGrad, TheMeanIsTheGradientUnlessItClips) {
  const at::Tensor x = gaussian(2'000, 2);
  EXPECT_TRUE(make({})->traits().biased);
  EXPECT_FALSE(make({{"clip", 0}})->traits().biased);
  constexpr int rounds = 2'000;
  at::Tensor mean = at::zeros({2'000}, at::kDouble);
  at::Tensor clipped = at::zeros({2'000}, at::kDouble);
  for (int step = 0; step < rounds; ++step) {
    const Round round = round_at(static_cast<std::uint64_t>(step));
    mean += round_trip(x, {{"clip", 0}}, round) / rounds;
    clipped += round_trip(x, {{"clip", 1}}, round) / rounds;
  }
  // An entry's variance is at most S |x|: its mean is off by about sqrt(4 * 0.8 / rounds).
  EXPECT_NEAR(std::sqrt(squared_norm(mean - x) / 2'000), std::sqrt(2.5 / rounds), 0.01);
  const auto limit = static_cast<float>(sigma(x));
  EXPECT_NEAR(std::sqrt(squared_norm(clipped - at::clamp(x, -limit, limit)) / 2'000), 0, 0.02);
}

TEST(TernGrad, TheBoundHoldsAtTheWorstTensor) {
  // sqrt(n) times the largest entry among equal small ones.
  const at::Tensor worst = at::full({10'000}, 0.01F);
  worst[0] = 1;
  double lost = 0;
  for (std::uint64_t step = 0; step < 200; ++step) {
    lost += squared_norm(worst - round_trip(worst, {{"clip", 0}, {"scale", "local"}}, round_at(step))) / 200;
  }
  const auto unclipped = make({{"clip", 0}, {"scale", "local"}});
  EXPECT_NEAR(lost / squared_norm(worst), unclipped->error_bound(10'000, round_at(0)), 3);
  for (const double clip : {0.5, 2.5, 4.0, 10.0}) {
    const auto compressor = make({{"clip", clip}, {"scale", "local"}});
    for (const at::Tensor& x : {gaussian(5'000, 3), sparse(5'000, 4), heavy_tailed(5'000, 5), worst}) {
      double mean = 0;
      for (std::uint64_t step = 0; step < 20; ++step) {
        mean += squared_norm(x - decoded(*compressor, encoded(*compressor, x, round_at(step)), x, round_at(step))) / 20;
      }
      EXPECT_LE(mean, 1.05 * compressor->error_bound(5'000, round_at(0)) * squared_norm(x)) << clip;
    }
  }
  EXPECT_TRUE(std::isinf(make({})->error_bound(5'000, round_at(0))));
}

TEST(TernGrad, FiveEntriesAreAByte) {
  const auto compressor = make({{"scale", "local"}});
  EXPECT_LE(encoded(*compressor, gaussian(320'000, 6), round_at(0)).size(), 64'000 + 4 + 3 + 11);
  EXPECT_EQ(encoded(*compressor, gaussian(6, 6), round_at(0)).size(), 2 + 4 + 1 + 7);
}

TEST(TernGrad, TheSecondPassWantsTheFirst) {
  Bytes out;
  Round round = round_at(0);
  round.pass = 1;
  EXPECT_EQ(make({})->encode(gaussian(10, 1), round, out).error().code, Errc::conflict);
  EXPECT_TRUE(out.empty());
}

Bytes scale_payload(float scale, std::size_t bytes) {
  Bytes payload(bytes);
  std::memcpy(payload.data(), &scale, std::min(bytes, sizeof scale));
  return payload;
}

TEST(TernGrad, RefusesScalesThatAreNone) {
  const auto compressor = make({});
  const Bytes good = scale_payload(1, 4);
  for (const Bytes& bad : {scale_payload(NAN, 4), scale_payload(INFINITY, 4), scale_payload(-1, 4), scale_payload(1, 3),
                           scale_payload(1, 5), Bytes()}) {
    const BytesView result = bad;
    EXPECT_EQ(compressor->absorb(std::span(&result, 1), round_at(0)).error().code, Errc::malformed);
  }
  const std::vector<BytesView> two = {good, good};
  EXPECT_EQ(compressor->absorb(two, round_at(0)).error().code, Errc::malformed) << "a maximum is one";
  EXPECT_EQ(compressor->absorb({}, round_at(0)).error().code, Errc::malformed);
  for (const float scale : {NAN, -NAN, INFINITY, -1.0F}) {
    Bytes payload;
    PayloadWriter writer(payload, Format::ternary, 1 + 4 + 1);
    writer.body()[0] = std::byte{5};
    store_u32(writer.body().data() + 1, std::bit_cast<std::uint32_t>(scale));
    writer.seal();
    at::Tensor sum = at::zeros({5});
    EXPECT_EQ(compressor->decode_add(payload, round_at(0), 1, sum).error().code, Errc::malformed);
  }
}

TEST(Trits, EveryByteIsReadOrRefused) {
  for (unsigned value = 0; value < 256; ++value) {
    for (const std::size_t entries : {std::size_t{5}, std::size_t{320}}) {
      const Bytes bytes(trit_bytes(entries), static_cast<std::byte>(value));
      std::vector<float> sum(entries, 10.0F);
      ASSERT_EQ(are_trits(bytes), value < 243) << value;
      add_trits(bytes, 2, sum);
      unsigned rest = value;
      for (std::size_t k = 0; value < 243 && k < 5; ++k, rest /= 3) {
        for (std::size_t j = 0; j < bytes.size(); ++j) {
          ASSERT_EQ(sum[j + k * bytes.size()], 10 + 2 * (static_cast<float>(rest % 3) - 1)) << value;
        }
      }
    }
  }
}

}  // namespace
}  // namespace weir::compressors::test
