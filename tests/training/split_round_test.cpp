// What an exchange by the owners of regions promises beside the contract: how much it moves, whatever the ranks choose,
// that nothing is lost, that what comes back is about the largest, and what it does with hostile bytes.

#include "training/exchange/split_round.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "base/errc.hpp"
#include "collectives/topologies/catalog.hpp"
#include "compressors/codecs/counts.hpp"
#include "compressors/codecs/sparse.hpp"
#include "ranks.hpp"
#include "split_group.hpp"
#include "tests/compressors/tensors.hpp"
#include "training/exchange/exchange.hpp"
#include "training/exchange/gradient_trigger.hpp"

namespace weir::training::testing {
namespace {

using compressors::Selection;
using compressors::test::gaussian;
using nlohmann::json;

// Volume. The ranks choose what is not zero: top-k sends no zeros.

constexpr std::int64_t entries = 16'384;

/// Positions that a rank chooses in a step, of which there are `count`.
using Pattern = std::function<std::set<std::int64_t>(std::uint32_t rank, std::uint32_t ranks, std::int64_t count,
                                                     std::uint64_t step)>;

std::set<std::int64_t> every(std::int64_t distance, std::int64_t first, std::int64_t count) {
  std::set<std::int64_t> positions;
  for (std::int64_t i = 0; i < count; ++i) positions.insert((first + i * distance) % entries);
  return positions;
}

const std::vector<std::pair<std::string, Pattern>>& patterns() {
  static const std::vector<std::pair<std::string, Pattern>> all = {
      {"the same everywhere", [](auto, auto, std::int64_t count, auto) { return every(entries / count, 3, count); }},
      {"nothing in common",
       [](std::uint32_t rank, auto, std::int64_t count, auto) { return every(entries / count, rank, count); }},
      {"the same in one place", [](auto, auto, std::int64_t count, auto) { return every(1, 9'000, count); }},
      {"side by side in one place", [](std::uint32_t rank, std::uint32_t ranks, std::int64_t count,
                                       auto) { return every(ranks, 4'000 + rank, count); }},
      {"each in a place of its own", [](std::uint32_t rank, std::uint32_t ranks, std::int64_t count,
                                        auto) { return every(1, (rank + 1) * entries / ranks, count); }},
      {"all in another region in each step",
       [](std::uint32_t rank, auto, std::int64_t count, std::uint64_t step) {
         return every(1, static_cast<std::int64_t>(step * 5'003 + rank), count);
       }},
      {"half of the ranks here, half there",
       [](std::uint32_t rank, auto, std::int64_t count, auto) { return every(1, rank % 2 == 0 ? 0 : 15'000, count); }},
      {"anywhere",
       [](std::uint32_t rank, auto, std::int64_t count, std::uint64_t step) {
         std::mt19937 random(static_cast<unsigned>(step * 100 + rank));
         std::set<std::int64_t> positions;
         while (std::ssize(positions) < count) positions.insert(static_cast<std::int64_t>(random() % entries));
         return positions;
       }},
  };
  return all;
}

/// A tensor that is not zero at these positions.
at::Tensor values_at(const std::set<std::int64_t>& positions, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> sizes(0.5F, 2);
  const at::Tensor all = at::zeros({entries});
  for (const std::int64_t at : positions) {
    all.data_ptr<float>()[at] = sizes(random) * (random() % 2 == 0 ? 1.0F : -1.0F);
  }
  return all;
}

/// A volume of entries, as what must not be reached.
struct Limits {
  double words = 0;
  double entries() const { return words / 2; }
};

class VolumeOf : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  /// Goes through some rounds of each pattern. Without a memory, so that each step chooses what the pattern says.
  void expect_below(std::int64_t count, Limits limits) {
    const std::uint32_t ranks = GetParam();
    for (const auto& [name, pattern] : patterns()) {
      SCOPED_TRACE(name + ", " + std::to_string(count) + " entries of each of " + std::to_string(ranks));
      SplitGroup group({.ranks = ranks,
                        .shapes = {{60, 100}, {entries - 6'000}},
                        .params = {{"ratio", 1.0}, {"index_codec", "raw32"}},
                        .memory = "none"});
      for (std::uint64_t step = 0; step < 8; ++step) {
        std::vector<SplitGroup::Gradients> gradients;
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
          const auto all = values_at(pattern(rank, ranks, count, step), static_cast<unsigned>(step * 99 + rank));
          gradients.push_back({all.narrow(0, 0, 6'000).view({60, 100}), all.narrow(0, 6'000, entries - 6'000)});
        }
        const auto volumes = group.step(gradients);
        for (std::uint32_t rank = 0; rank < ranks; ++rank) expect_below(volumes[rank], limits, step, rank);
        for (std::uint32_t rank = 1; rank < ranks; ++rank) {
          for (std::size_t p = 0; p < 2; ++p) {
            EXPECT_TRUE(group.rank(rank).means[p].tensor.equal(group.rank(0).means[p].tensor));
          }
        }
      }
    }
  }

 private:
  void expect_below(const Volume& volume, Limits limits, std::uint64_t step, std::uint32_t rank) {
    const std::uint32_t others = GetParam() - 1;
    if (others == 0) {
      EXPECT_EQ(volume.sent_bytes + volume.received_bytes, 0U);
      return;
    }
    EXPECT_LT(static_cast<double>(volume.sent), limits.entries()) << "rank " << rank << " in step " << step;
    EXPECT_LT(static_cast<double>(volume.received), limits.entries()) << "rank " << rank << " in step " << step;
    // Two words of 32 bits each, and for each message, of which there are two to and from each other rank, a frame's
    // header, the counts and the heads of at most two parts.
    const double around = 2.0 * others * (64 + 9 + 3 * 5 + 2 * (11 + 8));
    EXPECT_LT(static_cast<double>(volume.sent_bytes), 4 * limits.words + around);
    EXPECT_LT(static_cast<double>(volume.received_bytes), 4 * limits.words + around);
  }
};

INSTANTIATE_TEST_SUITE_P(Ranks, VolumeOf, ::testing::Values(1, 2, 3, 4, 7, 8, 16, 32),
                         [](const auto& info) { return std::to_string(info.param); });

TEST_P(VolumeOf, ARoundIsBelow6kWordsWhateverTheRanksChoose) {
  for (const std::int64_t count : {64, 250}) expect_below(count, {6.0 * static_cast<double>(count)});
}

TEST_P(VolumeOf, FewerEntriesThanRanksIsOneFromAndToEachOther) {
  for (const std::int64_t count : {1, 5}) {
    expect_below(count, {std::max(6.0 * static_cast<double>(count), 4.0 * GetParam())});
  }
}

TEST(SplitRound, SpreadsWhatAllRanksChooseInOnePlaceOverTheOwners) {
  constexpr std::uint32_t ranks = 8;
  SplitGroup group({.ranks = ranks, .shapes = {{entries}}, .params = {{"ratio", 1.0}}, .memory = "none"});
  std::vector<SplitGroup::Gradients> gradients;
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    gradients.push_back({values_at(every(1, 5'000 + rank, 400), rank)});
  std::vector<std::int64_t> returned;
  for (int step = 0; step < 6; ++step) {
    (void)group.step(gradients);
    returned.push_back(group.rank(0).means[0].tensor.count_nonzero().item<std::int64_t>());
  }
  EXPECT_LE(returned.front(), 2 * (3 * 400 / (2 * 8) + 1)) << "two owners at most, who may send back no more";
  EXPECT_GE(returned.back(), 350) << "about as many as a rank chooses: " << ::testing::PrintToString(returned);
}

// What comes back.

/// The gradients of ranks that see different batches: what they have in common is as large as what they have not. Its
/// sizes differ by place.
std::vector<SplitGroup::Gradients> correlated(std::uint32_t ranks, std::int64_t size, std::uint64_t step) {
  const at::Tensor scale = at::linspace(1, 3, size);
  const at::Tensor common = gaussian(size, 1'000 * step);
  std::vector<SplitGroup::Gradients> gradients;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    gradients.push_back({(common + gaussian(size, 1'000 * step + rank + 1)) * scale});
  }
  return gradients;
}

TEST(SplitRound, SendsBackAboutTheLargestSumsAboutAsManyAsARankChooses) {
  constexpr std::uint32_t ranks = 8;
  constexpr std::int64_t size = 40'000;
  constexpr std::int64_t wanted = 800;
  SplitGroup group({.ranks = ranks, .shapes = {{size}}, .params = {{"ratio", 0.02}}, .memory = "none"});
  for (std::uint64_t step = 0; step < 40; ++step) {
    const auto gradients = correlated(ranks, size, step);
    (void)group.step(gradients);
    if (step == 0) continue;  // nothing is known of the regions yet
    // The sums of what each rank's top-k has.
    at::Tensor sum = at::zeros({size});
    for (const auto& gradient : gradients) {
      const auto top = std::get<1>(gradient[0].abs().topk(wanted));
      sum.index_add_(0, top, gradient[0].index({top}) / static_cast<double>(ranks));
    }
    const at::Tensor best = std::get<1>(sum.abs().topk(wanted));
    const at::Tensor& mean = group.rank(3).means[0].tensor;
    const auto back = mean.count_nonzero().item<std::int64_t>();
    EXPECT_GE(back, wanted * 2 / 3) << step;
    EXPECT_LE(back, wanted * 3 / 2) << step;
    const auto found = mean.index({best}).count_nonzero().item<std::int64_t>();
    EXPECT_GE(found, std::min(back, wanted) * 9 / 10) << "of the best, in step " << step;
    const at::Tensor there = mean.nonzero().view(-1);
    const at::Tensor off = (mean.index({there}) - sum.index({there})).abs() > 1e-5;
    EXPECT_LE(off.count_nonzero().item<std::int64_t>(), back / 20) << "what is held back is missing in few sums";
  }
}

TEST(SplitRound, KeepsItsThresholdForManyRoundsOfGradientsThatAreAlike) {
  SplitGroup group({.ranks = 4, .shapes = {{20'000}}, .params = {{"ratio", 0.02}}, .memory = "none"});
  std::set<std::int64_t> thresholds;
  for (std::uint64_t step = 0; step < KeptThreshold::rounds_max; ++step) {
    (void)group.step(correlated(4, 20'000, step));
    if (step == 0) continue;  // regions are not where they should be
    std::vector<NamedTensor> state;
    group.rank(0).round->save(state);
    ASSERT_EQ(state[1].name, "threshold.p0");
    thresholds.insert(state[1].tensor[0].item<std::int64_t>());
  }
  EXPECT_EQ(thresholds.size(), 1U);
  EXPECT_GT(*thresholds.begin(), 1);
}

/// Compressors whose payloads round more or less.
class NothingIsLost : public ::testing::TestWithParam<std::pair<const char*, json>> {};
INSTANTIATE_TEST_SUITE_P(Compressors, NothingIsLost,
                         ::testing::Values(std::pair{"topk", json{{"ratio", 0.02}}},
                                           std::pair{"topk", json{{"ratio", 0.02}, {"value_codec", "int8"}}},
                                           std::pair{"blockk", json{{"block", 128}, {"per_block", 3}}},
                                           std::pair{"cocktail", json::object()},
                                           std::pair{"sketchml", json{{"ratio", 0.02}}}),
                         [](const auto& info) { return info.param.first + std::to_string(info.index); });

TEST_P(NothingIsLost, WhatDoesNotComeBackStaysWithTheRanks) {
  constexpr std::uint32_t ranks = 5;
  constexpr std::int64_t size = 6'000;
  const auto& [compressor, params] = GetParam();
  SplitGroup group({.ranks = ranks,
                    .shapes = {{size}},
                    .compressor = compressor,
                    .params = params,
                    .memory_params = {{"beta", 1.0}}});
  const auto options = at::TensorOptions().dtype(at::kDouble);
  at::Tensor given = at::zeros({size}, options);
  at::Tensor applied = at::zeros({size}, options);
  for (std::uint64_t step = 0; step < 30; ++step) {
    const auto gradients = correlated(ranks, size, step);
    for (const auto& gradient : gradients) given += gradient[0];
    (void)group.step(gradients);
    applied += group.rank(1).means[0].tensor * static_cast<double>(ranks);
  }
  at::Tensor kept = at::zeros({size}, options);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const auto state = group.rank(rank).compression.memory->save();
    ASSERT_EQ(state.size(), 1U);
    kept += state[0].tensor.view(-1);
  }
  const double largest = given.abs().max().item<double>();
  EXPECT_LT((given - applied - kept).abs().max().item<double>(), 1e-4 * largest);
  EXPECT_GT(applied.norm().item<double>(), 0.1 * given.norm().item<double>());
}

TEST(SplitRound, TensorsOfNoEntryAndOfOneGoAlong) {
  constexpr std::uint32_t ranks = 3;
  const std::vector<std::vector<std::int64_t>> shapes = {{0, 4}, {1, 1}, {30, 20}, {5, 0}, {1, 1}, {0, 0}};
  SplitGroup group({.ranks = ranks, .shapes = shapes, .params = {{"ratio", 0.02}}, .memory_params = {{"beta", 1.0}}});
  SplitGroup::Gradients given;
  SplitGroup::Gradients applied;
  for (const auto& shape : shapes) given.push_back(at::zeros(shape));
  for (const auto& shape : shapes) applied.push_back(at::zeros(shape));
  for (std::uint64_t step = 0; step < 10; ++step) {
    std::vector<SplitGroup::Gradients> gradients(ranks);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      for (std::size_t p = 0; p < shapes.size(); ++p) {
        gradients[rank].push_back(
            gaussian(c10::multiply_integers(shapes[p]), 100 * step + 10 * rank + p).view(shapes[p]));
        given[p] += gradients[rank][p];
      }
    }
    (void)group.step(gradients);
    for (std::size_t p = 0; p < shapes.size(); ++p) {
      for (std::uint32_t rank = 1; rank < ranks; ++rank) {
        EXPECT_TRUE(group.rank(rank).means[p].tensor.equal(group.rank(0).means[p].tensor));
      }
      applied[p] += group.rank(0).means[p].tensor * static_cast<double>(ranks);
    }
  }
  for (const std::size_t single : {1, 4}) {  // what all ranks choose in every step comes back in every step
    EXPECT_TRUE(applied[single].allclose(given[single], 1e-5, 1e-5)) << applied[single] << given[single];
  }
  EXPECT_GT(applied[2].count_nonzero().item<std::int64_t>(), 30);
}

// Hostile bytes.

/// Two ranks on the way to each other, the first of which waits for what it may be sent.
class Hostile : public ::testing::Test {
 protected:
  static constexpr std::int64_t size = 600;
  static constexpr std::uint32_t half = 300;  ///< the first rank's region

  Hostile() {
    std::vector<SplitGroup::Gradients> gradients;
    for (std::uint32_t rank = 0; rank < 2; ++rank) gradients.push_back({gaussian(size, rank)});
    group_.encode(gradients);
    group_.send_to_owners();
  }
  SplitRound& first() { return *group_.rank(0).round; }

  /// Counts and a part.
  static Bytes message(const std::vector<std::uint64_t>& counts, const Selection& entries, std::uint32_t of = half) {
    Bytes bytes;
    compressors::write_counts(counts, bytes);
    compressors::write_sparse(entries, of, compressors::raw32_codec, compressors::fp32_codec, bytes);
    return bytes;
  }
  static Selection first_entries(std::uint32_t count) {
    Selection entries;
    for (std::uint32_t i = 0; i < count; ++i) {
      entries.positions.push_back(i);
      entries.values.push_back(1);
    }
    return entries;
  }

  static void expect_refused(const Result<void>& result, const std::string& what) {
    ASSERT_FALSE(result) << what;
    EXPECT_TRUE(result.error().code == Errc::malformed || result.error().code == Errc::unsupported) << what;
    EXPECT_THAT(result.error().context, ::testing::HasSubstr("rank 1")) << what;
  }
  void expect_refused_by_owner(const Bytes& bytes, const std::string& what) {
    first().incoming().payloads[1] = bytes;
    expect_refused(first().combine(), what);
  }
  void expect_refused_from_owner(const Bytes& bytes, const std::string& what) {
    first().gathered().payloads[1] = bytes;
    expect_refused(first().decode(0), what);
  }
  /// Everything up to the second rank's answer.
  void answer() {
    group_.combine();
    group_.send_back();
  }

  SplitGroup group_{{.ranks = 2, .shapes = {{size}}, .params = {{"ratio", 0.05}}}};
};

TEST_F(Hostile, WhatAnOwnerIsSentIsChecked) {
  const Bytes good = first().incoming().payloads[1];
  ASSERT_GT(good.size(), 60U);
  for (std::size_t length = 0; length < good.size(); ++length) {
    expect_refused_by_owner(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length)), "cut off");
  }
  for (std::size_t at = 0; at < good.size(); ++at) {
    Bytes changed = good;
    changed[at] ^= std::byte{0x10};
    expect_refused_by_owner(changed, "changed at " + std::to_string(at));
  }
  Bytes longer = good;
  append(longer, good);
  expect_refused_by_owner(longer, "twice");
  expect_refused_by_owner(message({30, 3}, first_entries(4)), "more than it says");
  expect_refused_by_owner(message({30, 0}, first_entries(1)), "some where it says there are none");
  expect_refused_by_owner(message({30, 30}, first_entries(30)), "more than its allowance");
  expect_refused_by_owner(message({30, 301}, first_entries(3)), "more than there are");
  expect_refused_by_owner(message({601, 3}, first_entries(3)), "more than there are in all");
  expect_refused_by_owner(message({30}, first_entries(3)), "too few counts");
  expect_refused_by_owner(message({30, 3, 3}, first_entries(3)), "too many counts");
  expect_refused_by_owner(message({30, 3}, first_entries(3), half + 1), "of a part of another size");
  Selection nan = first_entries(3);
  nan.values[1] = NAN;
  expect_refused_by_owner(message({30, 3}, nan), "what is not a number");
  first().incoming().payloads[1] = message({30, 3}, first_entries(3));
  EXPECT_TRUE(first().combine()) << "as it should be";
}

TEST_F(Hostile, WhatAnOwnerSendsBackIsChecked) {
  answer();
  const Bytes good = first().gathered().payloads[1];
  for (std::size_t length = 0; length < good.size(); ++length) {
    expect_refused_from_owner(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length)), "cut off");
  }
  for (std::size_t at = 0; at < good.size(); ++at) {
    Bytes changed = good;
    changed[at] ^= std::byte{0x10};
    expect_refused_from_owner(changed, "changed at " + std::to_string(at));
  }
  Bytes longer = good;
  append(longer, good);
  expect_refused_from_owner(longer, "twice");
  expect_refused_from_owner(message({60}, first_entries(24)), "more than its allowance");
  expect_refused_from_owner(message({3}, first_entries(4)), "more than were chosen");
  expect_refused_from_owner(message({601}, first_entries(3)), "more than there are on two ranks");
  expect_refused_from_owner(message({}, first_entries(3)), "no count");
  expect_refused_from_owner(message({60}, first_entries(3), half - 1), "of a part of another size");
}

/// A rank that takes part in the exchange of the first bucket, and sends something else than it should.
TEST_F(Hostile, TheErrorNamesBucketAndRank) {
  for (const bool on_the_way_back : {false, true}) {
    auto group = collectives::in_process_group(2);
    Result<void> failure;
    run_ranks(2, [&](std::uint32_t rank) {
      if (rank == 0) {
        const at::Tensor weight = at::ones({30, 20}).set_requires_grad(true);
        const json none;
        const json params = {{"ratio", 0.05}};
        auto topk = compressors::builtin().make(
            {.compressor = "topk", .params = params, .memory = {}, .memory_params = none, .setting = {}});
        Exchange exchange({{"weight", weight}}, std::move(topk.value()), *group[0],
                          {.bucket_sizes = {}, .topology = {.name = "split_gather"}});
        GradientTrigger gradients(exchange, {{"weight", weight}});
        gradients.begin({});
        (weight * gaussian(600, 1).view({30, 20})).sum().backward();
        const auto agreed = gradients.finish();
        if (!agreed) failure = agreed.error();
        group[0]->abort({Errc::cancelled, "the test is over"});
        return;
      }
      (void)group[1]->thread().run([&]() -> collectives::Task<> {
        const auto topology = collectives::find_topology("split_gather")->make(group[1]->lane(1));
        const Bytes good = message({30, 3}, first_entries(3));
        const Bytes bad(100, std::byte{7});
        const std::vector<BytesView> outgoing{on_the_way_back ? BytesView(good) : BytesView(bad), {}};
        collectives::Gathered arrived{.payloads = {}, .bytes_max = 10'000};
        collectives::Subject about{.version = 0, .bucket = 0, .part = 1 << 16};
        if (auto sent = co_await topology->to_owners(outgoing, arrived, about); !sent) co_return sent.error();
        about.part += 1 << 15;
        co_return co_await topology->from_owners(bad, arrived, about);
      });
    });
    ASSERT_FALSE(failure);
    EXPECT_EQ(failure.error().code, Errc::malformed) << failure.error().message();
    EXPECT_THAT(failure.error().context, ::testing::StartsWith("bucket 0: rank 1"));
  }
}

}  // namespace
}  // namespace weir::training::testing
