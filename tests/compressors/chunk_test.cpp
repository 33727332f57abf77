#include "compressors/sparsifiers/chunk.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "base/errc.hpp"
#include "support.hpp"

namespace weir::compressors::test {
namespace {

at::Tensor numbers_of(Bytes& bytes) {
  return at::from_blob(bytes.data(), {static_cast<std::int64_t>(bytes.size() / sizeof(float))}, at::kFloat);
}

using Ranks = std::vector<std::unique_ptr<Chunk>>;

/// A round of some ranks: gives the positions that were sent and the mean.
std::pair<std::vector<std::uint32_t>, at::Tensor> exchange(Ranks& ranks, const std::vector<at::Tensor>& xs,
                                                           Round round) {
  round.world = static_cast<std::uint32_t>(ranks.size());
  Bytes sum;
  for (round.pass = 0; round.pass < 2; ++round.pass) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      Bytes payload;
      ranks[rank]->encode(xs[rank], round, payload).value();
      if (rank == 0) {
        sum = payload;
      } else {
        numbers_of(sum).add_(numbers_of(payload));
      }
    }
    const BytesView result = sum;
    for (const auto& rank : ranks) rank->absorb(std::span(&result, 1), round).value();
  }
  round.pass = 1;
  const auto positions = positions_in(*ranks[0], sum, round, static_cast<std::uint64_t>(xs[0].numel())).value();
  at::Tensor mean = at::zeros_like(xs[0]);
  ranks[0]->decode_add(sum, round, 1 / static_cast<float>(ranks.size()), mean).value();
  return {positions, mean};
}

TEST(Chunk, SumsTheChunksOfTheLargestSummedNorm) {
  constexpr std::int64_t entries = 1'000;
  constexpr std::int64_t length = 32;  // 31 whole chunks and one of 8
  const std::vector<at::Tensor> xs = {heavy_tailed(entries, 1), heavy_tailed(entries, 2), heavy_tailed(entries, 3)};
  Ranks ranks(3);
  for (auto& rank : ranks) rank = std::make_unique<Chunk>(Chunk::Options{length, 0.1, 0});
  const auto [positions, mean] = exchange(ranks, xs, round_at(0));

  std::vector<double> norms(32);
  for (std::int64_t i = 0; i < entries; ++i) {
    for (const at::Tensor& x : xs) norms[static_cast<std::size_t>(i / length)] += std::abs(x.data_ptr<float>()[i]);
  }
  std::vector<std::uint32_t> order(32);
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, [&](auto a, auto b) { return norms[a] > norms[b]; });
  std::vector<std::uint32_t> expected;
  at::Tensor exact = at::zeros({entries});
  for (std::uint32_t i = 0; i < entries; ++i) {
    if (std::find(order.begin(), order.begin() + 4, i / length) == order.begin() + 4) continue;  // ceil(3.2)
    expected.push_back(i);
    for (const at::Tensor& x : xs) exact.data_ptr<float>()[i] += x.data_ptr<float>()[i] / 3;
  }
  EXPECT_EQ(positions, expected);
  EXPECT_TRUE(at::allclose(mean, exact));
}

TEST(Chunk, TheShortChunkAtTheEndIsSentToo) {
  at::Tensor x = at::zeros({100});
  x.slice(0, 96, 100).fill_(2);
  Ranks ranks;
  ranks.push_back(std::make_unique<Chunk>(Chunk::Options{16, 0.01, 0}));
  const auto [positions, mean] = exchange(ranks, {x}, round_at(0));
  EXPECT_EQ(positions, (std::vector<std::uint32_t>{96, 97, 98, 99}));
  EXPECT_TRUE(at::equal(mean, x));
}

TEST(Chunk, OneTensorDoesNotDisturbAnother) {
  Chunk chunk({.chunk = 16, .ratio = 0.1});
  const at::Tensor x = gaussian(640, 4);
  const at::Tensor y = gaussian(800, 5);
  const Bytes first = encoded(chunk, x, round_at(1, 0));
  const Bytes second = encoded(chunk, y, round_at(1, 1));
  EXPECT_EQ(at::count_nonzero(decoded(chunk, first, x, round_at(1, 0))).item<std::int64_t>(), 64);
  EXPECT_EQ(at::count_nonzero(decoded(chunk, second, y, round_at(1, 1))).item<std::int64_t>(), 80);
  at::Tensor sum = at::zeros({640});
  EXPECT_EQ(chunk.decode_add(first, round_at(1, 2), 1, sum).error().code, Errc::malformed) << "a tensor never seen";
}

TEST(Chunk, WarmupSendsMoreAtFirst) {
  Chunk chunk({.chunk = 16, .ratio = 0.01, .warmup = {.epochs = 2, .dense = 0, .schedule = "paper"}});
  EXPECT_EQ(chunk.warmup_length({.epochs = 10}).epochs, 2);
  Round round = round_at(0);
  for (const auto& [epoch, chunks] : {std::pair{0.25, 100}, {0.75, 25}, {2.0, 4}}) {
    round.epoch = epoch;
    EXPECT_EQ(encoded(chunk, gaussian(6'400, 6), round).size(), chunks * 16 * sizeof(float));
  }
}

TEST(Chunk, SumsThatOverflowAreTheLargestAndNonsenseIsRefused) {
  Chunk chunk({.chunk = 16, .ratio = 0.25, .warmup = {.epochs = 0}});
  const at::Tensor x = gaussian(64, 7);
  const Round round = round_at(0);
  Bytes norms;
  chunk.encode(x, round, norms).value();
  const auto absorb = [&](std::vector<float> sums) {
    const BytesView view = std::as_bytes(std::span(sums));
    return chunk.absorb(std::span(&view, 1), round);
  };
  EXPECT_EQ(absorb({1, 2, NAN, 0}).error().code, Errc::malformed);
  EXPECT_EQ(absorb({1, 2, -1, 0}).error().code, Errc::malformed);
  EXPECT_EQ(absorb({1, 2, 3}).error().code, Errc::malformed);
  ASSERT_TRUE(absorb({1, 2, INFINITY, 0}));
  Round second = round;
  second.pass = 1;
  Bytes payload;
  ASSERT_TRUE(chunk.encode(x, second, payload));
  const auto positions = positions_in(chunk, payload, second, 64).value();
  EXPECT_EQ(positions.front(), 32);
}

TEST(Chunk, TheSecondPassNeedsTheFirst) {
  Chunk chunk({});
  Round round = round_at(0);
  round.pass = 1;
  Bytes out;
  EXPECT_EQ(chunk.encode(gaussian(1'000, 8), round, out).error().code, Errc::invalid_argument);
}

}  // namespace
}  // namespace weir::compressors::test
