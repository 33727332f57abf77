// What the sparsifiers choose, against their definitions written down plainly.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "base/errc.hpp"
#include "compressors/kernels/random/random.hpp"
#include "compressors/kernels/selection/selection.hpp"
#include "compressors/memories/residual_memory.hpp"
#include "compressors/sparsifiers/blockk.hpp"
#include "compressors/sparsifiers/cocktail.hpp"
#include "compressors/sparsifiers/randomk.hpp"
#include "compressors/sparsifiers/strata.hpp"
#include "compressors/sparsifiers/threshold.hpp"
#include "support.hpp"

namespace weir::compressors::test {
namespace {

using Positions = std::vector<std::uint32_t>;

Positions sent(Compressor& compressor, const at::Tensor& x, const Round& round) {
  const Bytes payload = encoded(compressor, x, round);
  const auto entries = static_cast<std::uint64_t>(x.numel());
  return positions_in(compressor, payload, last_pass(compressor, round), entries).value();
}

const float* floats(const at::Tensor& x) { return x.data_ptr<float>(); }

TEST(Threshold, SendsWhatReachesItAndNothingElse) {
  at::Tensor x = gaussian(100'000, 1) * 0.01F;
  x.data_ptr<float>()[7] = 0.025F;
  x.data_ptr<float>()[8'191] = -0.025F;
  x.data_ptr<float>()[8'192] = std::nextafter(0.025F, 0.0F);
  Positions expected;
  for (std::uint32_t i = 0; i < 100'000; ++i) {
    if (std::abs(floats(x)[i]) >= 0.025F) expected.push_back(i);
  }
  Threshold threshold({.threshold = 0.025F});
  EXPECT_EQ(sent(threshold, x, round_at(0)), expected);
  EXPECT_TRUE(std::ranges::count(expected, 7U) == 1 && std::ranges::count(expected, 8'192U) == 0);
  Threshold everything({.threshold = 0});
  EXPECT_EQ(sent(everything, x, round_at(0)).size(), 100'000);
  EXPECT_TRUE(sent(everything, at::zeros({5'000}), round_at(0)).empty());
  Threshold nothing({.threshold = 1e300});
  EXPECT_TRUE(sent(nothing, x, round_at(0)).empty());
}

/// Positions by the definition: part i begins at floor(i n / k), and the word of entry i chooses within it.
Positions strata_of(std::uint64_t entries, std::uint64_t count, const Round& round) {
  Positions positions;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t begin = i * entries / count;
    const std::uint64_t end = (i + 1) * entries / count;
    const std::uint64_t word = random_word({round.seed, round.step, round.tensor, 0}, i);
    positions.push_back(static_cast<std::uint32_t>(begin + (word * (end - begin) >> 32)));
  }
  return positions;
}

TEST(RandomK, DrawsOneOfEachStratumTheSameOnEveryRank) {
  for (const auto& [entries, ratio] : {std::pair{10'007, 0.013}, {64, 1.0}, {1'000, 0.0001}, {129, 0.5}}) {
    RandomK randomk({.ratio = ratio});
    const at::Tensor x = gaussian(entries, 2);
    Round round = round_at(9, 4);
    const auto count = static_cast<std::uint64_t>(std::ceil(ratio * entries));
    EXPECT_EQ(sent(randomk, x, round), strata_of(static_cast<std::uint64_t>(entries), count, round));
    round.rank = 3;
    EXPECT_EQ(sent(randomk, gaussian(entries, 5), round), strata_of(static_cast<std::uint64_t>(entries), count, round));
  }
  RandomK randomk({.ratio = 0.01});
  const at::Tensor x = gaussian(5'000, 2);
  EXPECT_NE(sent(randomk, x, round_at(1)), sent(randomk, x, round_at(2)));
  EXPECT_NE(sent(randomk, x, round_at(1, 0)), sent(randomk, x, round_at(1, 1)));
}

TEST(RandomK, EveryEntryHasTheSameChance) {
  constexpr std::int64_t entries = 103;  // parts of 10 and 11
  constexpr int draws = 20'000;
  std::vector<int> hits(entries);
  RandomK randomk({.ratio = 0.0971});
  const at::Tensor x = gaussian(entries, 3);
  for (int step = 0; step < draws; ++step) {
    for (const std::uint32_t at : sent(randomk, x, round_at(static_cast<std::uint64_t>(step)))) ++hits[at];
  }
  for (const int it : hits) {
    EXPECT_GT(it, draws / 11.0 - 5 * std::sqrt(draws / 11.0));
    EXPECT_LT(it, draws / 9.3 + 5 * std::sqrt(draws / 9.3));
  }
}

TEST(RandomK, SendsValuesAsTheyAreOrScaledByTheStratum) {
  const at::Tensor x = gaussian(1'000, 4);
  const Round round = round_at(6);
  for (const bool unbiased : {false, true}) {
    RandomK randomk({.ratio = 0.03, .unbiased = unbiased});
    const Bytes payload = encoded(randomk, x, round);
    ASSERT_EQ(payload.size(), 30 * sizeof(float)) << "nothing but values";
    const Positions positions = strata_of(1'000, 30, round);
    for (std::uint64_t i = 0; i < 30; ++i) {
      float value;
      std::memcpy(&value, payload.data() + i * sizeof value, sizeof value);
      const auto length = static_cast<float>((i + 1) * 1'000 / 30 - i * 1'000 / 30);
      EXPECT_EQ(value, floats(x)[positions[i]] * (unbiased ? length : 1.0F));
    }
    EXPECT_EQ(randomk.traits().biased, !unbiased);
  }
}

TEST(RandomK, TheValueCodecSaysHowItTravels) {
  const std::map<std::string, Reduction> wanted = {{"fp32", Reduction::sum},      {"fp16", Reduction::sum_fp16},
                                                   {"bf16", Reduction::sum_bf16}, {"int8", Reduction::gather},
                                                   {"int4", Reduction::gather},   {"int2", Reduction::gather}};
  const at::Tensor x = gaussian(20'000, 5);
  const std::map<std::string, std::size_t> bytes = {{"fp32", 800}, {"fp16", 400}, {"bf16", 400}};
  for (const auto& [codec, reduction] : wanted) {
    RandomK randomk({.ratio = 0.01, .value_codec = codec});
    EXPECT_EQ(randomk.traits().passes, Passes{reduction}) << codec;
    const Bytes payload = encoded(randomk, x, round_at(0));
    if (bytes.contains(codec)) {
      EXPECT_EQ(payload.size(), bytes.at(codec)) << codec;
    }
    const at::Tensor y = decoded(randomk, payload, x, round_at(0));
    for (const std::uint32_t at : sent(randomk, x, round_at(0))) {
      EXPECT_NEAR(floats(y)[at], floats(x)[at], codec == "int2" ? 2 : codec == "int4" ? 0.3 : 0.02) << codec;
    }
    RandomK unbiased({.unbiased = true, .value_codec = codec});
    EXPECT_EQ(unbiased.traits().biased, codec != "fp32") << "rounding to nearest has a bias";
  }
}

/// Sums of 16-bit numbers stay in range because each rank sends its share of the mean.
TEST(RandomK, SendsItsShareOfTheMeanWhereSumsAreOfSixteenBits) {
  Round round = round_at(0);
  round.world = 4;
  const at::Tensor x = at::full({20'000}, 60'000.0F);  // four of these are beyond the range of fp16
  for (const auto& [codec, share] :
       std::map<std::string, float>{{"fp32", 60'000}, {"fp16", 15'000}, {"bf16", 15'000}}) {
    RandomK randomk({.ratio = 0.01, .value_codec = codec});
    const Bytes payload = encoded(randomk, x, round);
    at::Tensor sent = at::empty({200}, codec == "fp32" ? at::kFloat : codec == "fp16" ? at::kHalf : at::kBFloat16);
    ASSERT_EQ(payload.size(), sent.nbytes()) << codec;
    std::memcpy(sent.data_ptr(), payload.data(), payload.size());
    EXPECT_TRUE(at::allclose(sent.to(at::kFloat), at::full({200}, share), 4e-3)) << codec;
    at::Tensor mean = at::zeros_like(x);
    for (int rank = 0; rank < 4; ++rank) randomk.decode_add(payload, round, 0.25F, mean).value();
    EXPECT_NEAR(mean.max().item<float>(), 60'000, 300) << codec << ": decoding takes the division back";
  }
}

TEST(RandomK, RefusesTensorsOfAnotherSizeAndSumsThatOverflowed) {
  RandomK randomk({.ratio = 0.01});
  const at::Tensor x = gaussian(50, 6);
  const Bytes payload = encoded(randomk, x, round_at(0));
  at::Tensor other = at::zeros({51});  // of as many strata
  EXPECT_EQ(randomk.decode_add(payload, round_at(0), 1, other).error().code, Errc::malformed);
  Bytes infinite = payload;
  const float infinity = INFINITY;
  std::memcpy(infinite.data(), &infinity, sizeof infinity);
  at::Tensor sum = at::zeros({50});
  EXPECT_EQ(randomk.decode_add(infinite, round_at(0), 1, sum).error().code, Errc::malformed);
  EXPECT_EQ(at::count_nonzero(sum).item<std::int64_t>(), 0);
}

TEST(Sparsifiers, SendTheLargestOfWhatTheyChooseWhereAShareIsWanted) {
  const at::Tensor x = gaussian(20'000, 5);
  std::set<std::string> thinning;
  for (const Case& it : cases()) {
    if (!it.make()->traits().thins) continue;
    thinning.insert(it.name);
    auto all = sent(*it.make(), x, round_at(3));
    if (all.empty()) continue;
    for (const double share : {0.5, 0.0625, 1e-9}) {
      Round round = round_at(3);
      round.share = share;
      const auto some = sent(*it.make(), x, round);
      const double wanted = std::ceil(share * static_cast<double>(all.size()));
      ASSERT_EQ(some.size(), static_cast<std::size_t>(wanted)) << it.name;
      std::ranges::stable_sort(all, std::greater(), [&](std::uint32_t p) { return std::abs(floats(x)[p]); });
      Positions expected(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(some.size()));
      std::ranges::sort(expected);
      EXPECT_EQ(some, expected) << it.name << " " << share;
    }
  }
  EXPECT_EQ(thinning, (std::set<std::string>{"dgc", "sidco", "threshold", "topk"}));
}

TEST(BlockK, KeepsTheLargestOfEachBlock) {
  at::Tensor x = gaussian(10'000, 7);
  x.slice(0, 1'024, 2'048).mul_(1e-3F);  // its neighbours' cut is of no use here
  x.slice(0, 3'000, 3'100).fill_(2.5F);  // ties: the first
  x.slice(0, 5'120, 6'144).fill_(0);     // nothing to send
  x.slice(0, 6'144, 7'000).fill_(-1);
  BlockK blockk({.block = 1'024, .per_block = 20, .codecs = {.index = "auto", .value = "fp32"}});
  Positions expected;
  for (std::uint32_t start = 0; start < 10'000; start += 1'024) {
    Positions order;
    for (std::uint32_t i = start; i < std::min(start + 1'024, 10'000U); ++i) {
      if (floats(x)[i] != 0) order.push_back(i);
    }
    std::ranges::stable_sort(order, [&](auto a, auto b) { return std::abs(floats(x)[a]) > std::abs(floats(x)[b]); });
    order.resize(std::min<std::size_t>(order.size(), 20));
    std::ranges::sort(order);
    expected.insert(expected.end(), order.begin(), order.end());
  }
  EXPECT_EQ(sent(blockk, x, round_at(0)), expected);
}

TEST(BlockK, IsThatOfSparseLoCoByDefault) {
  BlockK blockk({});
  const at::Tensor x = gaussian(64 * 4'096, 8);
  const Bytes payload = encoded(blockk, x, round_at(0));
  EXPECT_NEAR(static_cast<double>(x.nbytes()) / static_cast<double>(payload.size()), 146, 2);
  EXPECT_EQ(sent(blockk, x, round_at(0)).size(), 64 * 64);
  const nlohmann::json none;
  const auto made =
      builtin().make({.compressor = "blockk", .params = none, .memory = "", .memory_params = none, .setting = {}});
  at::Tensor residual = made->memory->compensate(at::ones({4}), round_at(0)).value();
  for (std::uint64_t step = 1; step <= 30; ++step) {
    residual = made->memory->compensate(at::zeros({4}), round_at(step)).value();
  }
  EXPECT_NEAR(floats(residual)[0], 0.95, 0.01) << "a synchronisation is about 30 steps";
  EXPECT_EQ(builtin().make_compressor("blockk", {{"block", 64}, {"per_block", 65}}).error().code,
            Errc::invalid_argument);
}

// Every entry waits for 64 steps here: its memory must not forget what it owes in the meantime.
TEST(BlockK, MostOfAConstantGradientArrives) {
  const nlohmann::json params = {{"value_codec", "fp32"}};
  const nlohmann::json none;
  const auto made =
      builtin().make({.compressor = "blockk", .params = params, .memory = "", .memory_params = none, .setting = {}});
  const at::Tensor gradient = at::ones({4'096});
  at::Tensor arrived = at::zeros({4'096});
  for (std::uint64_t step = 0; step < 640; ++step) {
    const at::Tensor input = made->memory->compensate(gradient, round_at(step)).value();
    const Bytes payload = encoded(*made->compressor, input, round_at(step));
    at::Tensor mean = decoded(*made->compressor, payload, input, round_at(step));
    made->memory->update(round_at(step), SentPayload(*made->compressor, payload, round_at(step), mean), mean).value();
    arrived += mean;
  }
  EXPECT_GT(arrived.mean().item<double>() / 640, 0.85);
}

TEST(Cocktail, SendsTheLargestSurvivors) {
  const at::Tensor x = gaussian(30'011, 9);
  const Round round = round_at(7, 2);
  Cocktail cocktail({});
  const Positions survivors = strata_of(30'011, 3'002, round);
  Positions order = survivors;
  std::ranges::stable_sort(order, [&](auto a, auto b) { return std::abs(floats(x)[a]) > std::abs(floats(x)[b]); });
  order.resize(601);  // the ceiling of a fifth
  std::ranges::sort(order);
  EXPECT_EQ(sent(cocktail, x, round), order);
  const at::Tensor y = decoded(cocktail, encoded(cocktail, x, round), x, round);
  for (const std::uint32_t at : order) EXPECT_NEAR(floats(y)[at], floats(x)[at], 0.2);
  // 601 of 3002: about 2.9 bits of entropy a position where the tensor would take 7; 4 bits a value
  EXPECT_LE(encoded(cocktail, x, round).size(), 601 * 7.6 / 8 + 40);
}

TEST(Cocktail, OtherSeedsReadOtherPositions) {
  Cocktail cocktail({});
  const at::Tensor x = gaussian(5'000, 10);
  const Bytes payload = encoded(cocktail, x, round_at(1));
  const Positions here = positions_in(cocktail, payload, round_at(1), 5'000).value();
  const Positions there = positions_in(cocktail, payload, round_at(2), 5'000).value();
  EXPECT_EQ(here.size(), there.size());
  EXPECT_NE(here, there);
}

}  // namespace
}  // namespace weir::compressors::test
