#include "compressors/sparsifiers/dgc.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/philox.hpp"
#include "support.hpp"

namespace weir::compressors::test {
namespace {

std::vector<std::uint32_t> chosen(const Dgc::Options& options, const at::Tensor& x, const Round& round) {
  Dgc dgc(options);
  return positions_in(dgc, encoded(dgc, x, round), round, static_cast<std::uint64_t>(x.numel())).value();
}

/// The rules of Lin et al.'s code, one after the other, with a full pass for each.
std::vector<std::uint32_t> reference(const Dgc::Options& options, const at::Tensor& x, const Round& round) {
  const float* values = x.data_ptr<float>();
  const auto entries = static_cast<double>(x.numel());
  const double share = std::ceil(entries * options.sample_ratio);
  const double by_ratio = std::ceil(2 / options.ratio);
  auto stride = std::int64_t{1};
  if (options.sample_ratio < 1 && entries > by_ratio) {
    const double wanted = std::max(share, by_ratio);
    stride = static_cast<std::int64_t>(std::ceil(entries / wanted / 32)) * 32 + 1;
    while (stride > 1 && static_cast<double>(x.numel() / stride) < wanted) stride -= 8;
  }
  const std::int64_t samples = x.numel() / stride;
  const std::uint64_t drawn = Philox(round.seed).at(round.step, round.tensor, 0)[0];
  const auto start = static_cast<std::int64_t>((drawn * static_cast<std::uint64_t>(stride)) >> 32);

  std::vector<float> sample;
  for (std::int64_t i = 0; i < samples; ++i) sample.push_back(std::abs(values[start + i * stride]));
  std::ranges::sort(sample, std::greater<>());
  float threshold = sample[static_cast<std::size_t>(std::ceil(static_cast<double>(samples) * options.ratio)) - 1];

  const auto above = [&] {
    std::vector<std::uint32_t> found;
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      if (std::abs(values[i]) >= threshold && values[i] != 0) found.push_back(static_cast<std::uint32_t>(i));
    }
    return found;
  };
  const double wanted = std::ceil(entries * options.ratio);
  std::vector<std::uint32_t> found = above();
  for (std::int64_t i = 0; samples < x.numel() && i < options.adaptations_max; ++i) {
    const auto count = static_cast<double>(found.size());
    if (count > options.upper_bound * wanted) {
      if (options.resample) break;  // the exact cut within what was found, which is what comes below
      threshold *= static_cast<float>(options.upper_bound);
    } else if (count < options.lower_bound * wanted) {
      threshold *= static_cast<float>(options.lower_bound);
    } else {
      break;
    }
    found = above();
  }
  std::ranges::stable_sort(found, [&](auto a, auto b) { return std::abs(values[a]) > std::abs(values[b]); });
  found.resize(std::min(found.size(), static_cast<std::size_t>(wanted)));
  std::ranges::sort(found);
  return found;
}

TEST(Dgc, ChoosesWhatThePlainRulesChoose) {
  const at::Tensor columns = gaussian(1 << 15, 2).reshape({-1, 512});
  columns.select(1, 3).mul_(50);
  const std::vector<at::Tensor> tensors = {gaussian(50'000, 3), heavy_tailed(40'000, 4), sparse(50'000, 5),
                                           columns.flatten(), gaussian(2'500, 6)};
  for (const bool resample : {true, false}) {
    for (const double ratio : {0.001, 0.01, 0.1, 0.3}) {
      const Dgc::Options options{.ratio = ratio, .min_kept = 1, .warmup = {.epochs = 0}, .resample = resample};
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        for (const std::uint64_t step : {0, 1}) {
          const Round round = round_at(step, static_cast<std::uint32_t>(i));
          EXPECT_EQ(chosen(options, tensors[i], round), reference(options, tensors[i], round))
              << "tensor " << i << ", ratio " << ratio << ", step " << step << ", resample " << resample;
        }
      }
    }
  }
}

TEST(Dgc, DrawsItsSampleFromSeedStepAndTensor) {
  const Dgc::Options options{.ratio = 0.01, .warmup = {.epochs = 0}, .lower_bound = 0.01};
  const at::Tensor x = gaussian(30'000, 7);
  std::set<std::vector<std::uint32_t>> by_seed;
  std::set<std::vector<std::uint32_t>> by_step;
  std::set<std::vector<std::uint32_t>> by_tensor;
  std::set<std::vector<std::uint32_t>> by_rank;
  for (std::uint32_t i = 0; i < 12; ++i) {
    by_seed.insert(chosen(options, x, {.seed = i, .step = 1, .tensor = 1}));
    by_step.insert(chosen(options, x, {.seed = 1, .step = i, .tensor = 1}));
    by_tensor.insert(chosen(options, x, {.seed = 1, .step = 1, .tensor = i}));
    by_rank.insert(chosen(options, x, {.seed = 1, .step = 1, .tensor = 1, .rank = i}));
  }
  EXPECT_GT(by_seed.size(), 2);
  EXPECT_GT(by_step.size(), 2);
  EXPECT_GT(by_tensor.size(), 2);
  EXPECT_EQ(by_rank.size(), 1);
}

TEST(Dgc, NeverSendsMoreThanItsRatioNorMuchLess) {
  for (std::uint64_t step = 0; step < 20; ++step) {
    const std::size_t sent =
        chosen({.ratio = 0.01, .warmup = {.epochs = 0}}, gaussian(60'000, step), round_at(step)).size();
    EXPECT_LE(sent, 600);
    EXPECT_GE(sent, 480);
  }
}

TEST(Dgc, AlwaysSendsSomethingOfATensorThatHasSomething) {
  for (const bool resample : {true, false}) {
    const Dgc::Options options{.ratio = 0.01, .warmup = {.epochs = 0}, .resample = resample};
    const at::Tensor lone = at::zeros({50'000});
    lone[49'999] = -1.0F;
    EXPECT_EQ(chosen(options, lone, round_at(0)), std::vector<std::uint32_t>{49'999});
    EXPECT_EQ(chosen(options, at::full({50'000}, 3.0F), round_at(0)).size(), 500);
    EXPECT_TRUE(chosen(options, at::zeros({50'000}), round_at(0)).empty());
  }
}

TEST(Dgc, SendsSomeEntriesOfASmallTensorWhateverItsRatioIs) {
  const Dgc::Options options{.ratio = 0.001, .min_kept = 64, .warmup = {.epochs = 0}};
  EXPECT_EQ(chosen(options, gaussian(40, 1), round_at(0)).size(), 40);
  EXPECT_LE(chosen(options, gaussian(200'000, 1), round_at(0)).size(), 200);
  const at::Tensor x = gaussian(5'000, 1);
  const auto positions = chosen(options, x, round_at(0));
  EXPECT_LE(positions.size(), 64);
  EXPECT_GE(positions.size(), 52) << "the lower bound of 0.8 is that of the threshold's count";
  const auto count = static_cast<std::int64_t>(positions.size());
  const at::Tensor largest = std::get<0>(std::get<1>(x.abs().topk(count)).sort());
  for (std::int64_t i = 0; i < count; ++i) {
    EXPECT_EQ(positions[static_cast<std::size_t>(i)], largest[i].item<std::int64_t>());
  }
}

TEST(SamplePlan, IsThatOfTheOriginalCode) {
  EXPECT_EQ(SamplePlan::of(1'000, 0.001, 0.01).samples, 1'000);   // as many as 2 / ratio: all
  EXPECT_EQ(SamplePlan::of(16'777'216, 0.001, 0.01).stride, 97);  // 129, 121, ... until 1 % are met
  EXPECT_EQ(SamplePlan::of(16'777'216, 0.001, 0.01).samples, 172'960);
  EXPECT_EQ(SamplePlan::of(25'000, 0.001, 0.01).stride, 9);  // 2,000 samples at least
  EXPECT_EQ(SamplePlan::of(25'000, 0.001, 1).stride, 1);
  EXPECT_EQ(SamplePlan::of(3, 1e-300, 0.01).samples, 3);
}

TEST(Dgc, WarmupSendsMoreAtFirst) {
  const at::Tensor x = gaussian(100'000, 8);
  Round round = round_at(0);
  const Dgc::Options options{.ratio = 0.001, .warmup = {.epochs = 4, .dense = 0, .schedule = "paper"}};
  const std::vector<std::pair<double, std::size_t>> wanted = {{0, 25'000}, {0.99, 25'000}, {1, 6'250}, {2.5, 1'563},
                                                              {3, 391},    {4, 100},       {70, 100}};
  for (const auto& [epoch, most] : wanted) {
    round.epoch = epoch;
    const std::size_t sent = chosen(options, x, round).size();
    EXPECT_LE(sent, most) << epoch;
    EXPECT_GE(sent, static_cast<std::size_t>(0.7 * static_cast<double>(most))) << epoch;
  }
  EXPECT_EQ(Dgc(options).warmup_length({.epochs = 90}).epochs, 4);
  EXPECT_EQ(Dgc({.warmup = {.epochs = 0.25}}).warmup_length({.epochs = 90}).epochs, 0.25);
}

}  // namespace
}  // namespace weir::compressors::test
