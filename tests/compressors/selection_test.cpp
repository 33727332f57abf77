#include "compressors/kernels/selection/selection.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>

#include "base/philox.hpp"
#include "base/processor.hpp"
#include "compressors/kernels/arithmetic.hpp"
#include "compressors/kernels/selection/collect.hpp"
#include "compressors/kernels/selection/sample.hpp"

namespace weir::compressors::test {
namespace {

/// Few distinct magnitudes, so that there are many ties, of both signs.
std::vector<float> coarse(std::size_t entries, std::uint64_t seed) {
  std::vector<float> values(entries);
  for (std::size_t i = 0; i < entries; ++i) {
    const auto words = Philox(seed).at(0, 0, static_cast<std::uint32_t>(i));
    values[i] = static_cast<float>(words[0] % 17) * (words[1] % 2 ? 0.25F : -0.25F);
  }
  return values;
}

std::vector<std::size_t> by_magnitude(std::span<const float> values) {
  std::vector<std::size_t> order(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return std::abs(values[a]) > std::abs(values[b]); });
  return order;
}

TEST(SortByPosition, PutsEachValueWhereItsPositionGoes) {
  for (const std::size_t size : {0, 1, 2, 3000}) {
    for (const unsigned bits : {1U, 11U, 12U, 25U, 32U}) {
      Selection selection;
      std::map<std::uint32_t, float> expected;
      for (std::size_t i = 0; i < size; ++i) {
        const std::uint32_t position = Philox(bits).at(0, 0, static_cast<std::uint32_t>(i))[0] >> (32 - bits);
        if (!expected.emplace(position, static_cast<float>(i)).second) continue;
        selection.positions.push_back(position);
        selection.values.push_back(static_cast<float>(i));
      }
      sort_by_position(selection);
      ASSERT_EQ(selection.size(), expected.size());
      std::size_t i = 0;
      for (const auto& [position, value] : expected) {
        EXPECT_EQ(selection.positions[i], position);
        EXPECT_EQ(selection.values[i], value);
        ++i;
      }
    }
  }
}

TEST(CutAtRank, KeepsExactlyThatMany) {
  const std::vector<float> values = coarse(501, 1);
  const auto order = by_magnitude(values);
  for (const std::size_t rank : {1, 2, 17, 250, 500, 501}) {
    const Cut cut = cut_at_rank(values, rank);
    EXPECT_EQ(cut.magnitude, magnitude(values[order[rank - 1]]));
    const auto above = std::ranges::count_if(values, [&](float x) { return magnitude(x) > cut.magnitude; });
    EXPECT_EQ(static_cast<std::size_t>(above) + cut.ties, rank);
  }
}

TEST(CutAtRank, OfManyValuesOfAnySpread) {
  std::vector<float> values(20'000);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto words = Philox(4).at(0, 0, static_cast<std::uint32_t>(i));
    values[i] = std::bit_cast<float>(words[0]);  // any float, NaN and infinity among them
  }
  std::vector<float> close = values;  // neighbours in their last bits
  for (float& value : close) value = std::bit_cast<float>(0x3F800000U | (std::bit_cast<std::uint32_t>(value) & 0x3FF));
  std::vector<float> outlier(20'000, -1.0F);
  outlier[77] = 3e38F;
  for (const std::vector<float>& of : {values, close, outlier}) {
    std::vector<std::uint32_t> order(of.size());
    std::ranges::transform(of, order.begin(), magnitude);
    std::ranges::sort(order, std::greater<>());
    for (const std::size_t rank : {1, 2, 50, 65, 1'000, 2'500, 19'999, 20'000}) {
      const Cut cut = cut_at_rank(of, rank);
      EXPECT_EQ(cut.magnitude, order[rank - 1]);
      const auto above = std::ranges::count_if(order, [&](std::uint32_t it) { return it > cut.magnitude; });
      EXPECT_EQ(static_cast<std::size_t>(above) + cut.ties, rank);
    }
  }
}

TEST(SelectLargest, TakesTheFirstAmongEquals) {
  const std::vector<float> values = {1, -2, 2, 0, -2, 3, 2};
  Selection out;
  select_largest(values, 3, out);
  EXPECT_EQ(out.positions, (std::vector<std::uint32_t>{1, 2, 5}));
  EXPECT_EQ(out.values, (std::vector<float>{-2, 2, 3}));
}

TEST(SelectLargest, LeavesZerosOut) {
  Selection out;
  select_largest(std::vector<float>{0, -1, -0.0F, 0}, 3, out);
  EXPECT_EQ(out.positions, std::vector<std::uint32_t>{1});
  select_largest(std::vector<float>{0, 0}, 1, out);
  EXPECT_EQ(out.size(), 0);
}

TEST(Trim, CutsWhatWasCollected) {
  const std::vector<float> values = coarse(400, 2);
  Selection all;
  Selection exact;
  ASSERT_TRUE(collect(values, 1, values.size(), all));
  trim(all, cut_at_rank(all.values, 99));
  select_largest(values, 99, exact);
  EXPECT_EQ(all.positions, exact.positions);
  EXPECT_EQ(all.values, exact.values);
}

TEST(Collect, GivesUpAboveItsLimit) {
  const std::vector<float> values(1'000, 1.0F);
  Selection out;
  EXPECT_FALSE(collect(values, 1, 999, out));
  EXPECT_EQ(out.size(), 0);
  EXPECT_TRUE(collect(values, 1, 1'000, out));
  EXPECT_EQ(out.size(), 1'000);
  EXPECT_TRUE(collect(values, magnitude(1.5F), 0, out));
  EXPECT_EQ(out.size(), 0);
}

/// Once with the loops of this processor, once with the portable ones.
void on_both_paths(const std::function<void()>& check) {
  check();
  const KernelsUpTo portable(Kernels::portable);
  check();
}

TEST(Kernels, BothPathsCollectTheSame) {
  std::vector<float> values = coarse(4'099, 3);
  values[77] = NAN;
  values[4'098] = -INFINITY;
  on_both_paths([&] {
    for (const std::size_t n : {0, 1, 7, 8, 31, 32, 33, 100, 4'099}) {
      for (const float threshold : {0.25F, 2.0F, 4.0F, 4.25F}) {
        std::vector<std::uint32_t> expected;
        for (std::size_t i = 0; i < n; ++i) {
          if (magnitude(values[i]) >= magnitude(threshold)) expected.push_back(static_cast<std::uint32_t>(i));
        }
        std::vector<std::uint32_t> positions(n + collect_slack);
        std::vector<float> found(n + collect_slack);
        const std::size_t count = collect_above(values.data(), n, magnitude(threshold), positions.data(), found.data());
        ASSERT_EQ(count, expected.size());
        positions.resize(count);
        EXPECT_EQ(positions, expected);
        for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(magnitude(found[i]), magnitude(values[expected[i]]));
      }
    }
  });
}

TEST(Kernels, BothPathsStayWithinTheSlack) {
  const std::vector<float> values(500, 1.0F);
  on_both_paths([&] {
    for (std::size_t n = 0; n < 100; ++n) {
      std::vector<std::uint32_t> positions(n + collect_slack + 1, 0xABCD);
      std::vector<float> found(n + collect_slack + 1, 7);
      EXPECT_EQ(collect_above(values.data(), n, 1, positions.data(), found.data()), n);
      EXPECT_EQ(positions.back(), 0xABCDU);
      EXPECT_EQ(found.back(), 7);
    }
  });
}

/// The largest magnitude of each block.
std::vector<float> peaks_by_sorting(std::span<const float> values) {
  std::vector<float> peaks;
  for (std::size_t start = 0; start < values.size(); start += peak_block) {
    const auto block = values.subspan(start, std::min(peak_block, values.size() - start));
    peaks.push_back(std::bit_cast<float>(magnitude(block[by_magnitude(block)[0]])));
  }
  return peaks;
}

/// Mostly small values, with some large ones, both signs.
std::vector<float> uneven(std::size_t entries, std::uint32_t seed) {
  std::vector<float> values = coarse(entries, seed);
  for (std::size_t i = 0; i < entries; ++i) {
    if (Philox(seed).at(1, 0, static_cast<std::uint32_t>(i))[0] % 50 != 0) values[i] *= 1e-3F;
  }
  return values;
}

TEST(Kernels, PeaksLeadToTheSameEntries) {
  on_both_paths([&] {
    for (const std::size_t n : {0, 1, 31, 32, 33, 64, 1'000, 4'099}) {
      std::vector<float> values = uneven(n, 5);
      if (n > 64) values[n - 2] = -INFINITY;
      const std::vector<float> peaks = peaks_by_sorting(values);
      ASSERT_EQ(peaks.size(), peaks_of(n));
      for (const float threshold : {1e-9F, 0.25F, 2.0F, 4.0F, 4.25F}) {
        Selection expected;
        Selection found;
        ASSERT_TRUE(collect(values, magnitude(threshold), n, expected));
        ASSERT_TRUE(collect(values, peaks, magnitude(threshold), expected.size(), found));
        EXPECT_EQ(found.positions, expected.positions);
        EXPECT_EQ(found.values, expected.values);
        if (expected.size() == 0) continue;
        EXPECT_FALSE(collect(values, peaks, magnitude(threshold), expected.size() - 1, found));
        EXPECT_EQ(found.size(), 0);
      }
    }
  });
}

TEST(SampledCut, IsThatOfTheSampleWithAndWithoutPeaks) {
  const StridedSample sample{.first = 5, .stride = 33, .count = 40'000};
  std::vector<float> spread(sample.first + sample.stride * sample.count);
  for (std::size_t i = 0; i < spread.size(); ++i) {
    const auto x = static_cast<float>(Philox(3).at(0, 0, static_cast<std::uint32_t>(i))[0]) / 0x1p32F - 0.5F;
    spread[i] = x * x * x;
  }
  std::vector<float> clustered = spread;
  for (std::size_t i = 0; i < clustered.size() / 64; ++i) clustered[i] *= 1000;
  std::vector<float> misleading = spread;  // whatever is large is beside the sample
  for (std::size_t i = 6; i < misleading.size(); i += sample.stride) misleading[i] += 100;
  for (const auto& values :
       {spread, clustered, misleading, coarse(spread.size(), 4), std::vector<float>(spread.size())}) {
    std::vector<float> sampled(sample.count);
    for (std::size_t i = 0; i < sample.count; ++i) sampled[i] = std::abs(values[sample.first + i * sample.stride]);
    std::ranges::sort(sampled, std::greater<>());
    const std::vector<float> peaks = peaks_by_sorting(values);
    for (const std::size_t rank : {1, 40, 150, 10'000, 40'000}) {
      EXPECT_EQ(sampled_cut(values, {}, sample, rank), magnitude(sampled[rank - 1])) << rank;
      EXPECT_EQ(sampled_cut(values, peaks, sample, rank), magnitude(sampled[rank - 1])) << rank;
    }
  }
}

TEST(Kernels, MemoriesNoteThePeaksOfWhatTheyWrite) {
  on_both_paths([&] {
    for (const std::size_t n : {0, 1, 31, 32, 33, 1'000}) {
      const std::vector<float> gradient = uneven(n, 6);
      std::vector<float> peaks(peaks_of(n));
      for (const bool nesterov : {false, true}) {
        std::vector<float> momentum = coarse(n, 7);
        std::vector<float> velocity = coarse(n, 8);
        std::vector<float> m = momentum;
        std::vector<float> v = velocity;
        accumulate_momentum({0.9F, 0.5F, nesterov}, gradient, momentum, velocity, peaks);
        for (std::size_t i = 0; i < n; ++i) {
          const float scaled = 0.5F * gradient[i];
          m[i] = nesterov ? 0.9F * (m[i] + scaled) : 0.9F * m[i] + scaled;
          v[i] += nesterov ? m[i] + scaled : m[i];
        }
        EXPECT_EQ(momentum, m);
        EXPECT_EQ(velocity, v);
        EXPECT_EQ(peaks, peaks_by_sorting(velocity));
      }
      std::vector<float> residual = coarse(n, 9);
      std::vector<float> without = residual;
      accumulate_residual(0.75F, 0.5F, gradient, residual, peaks);
      accumulate_residual(0.75F, 0.5F, gradient, without);
      EXPECT_EQ(residual, without);
      EXPECT_EQ(peaks, peaks_by_sorting(residual));
    }
  });
  std::vector<float> residual(40, 1.0F);
  std::vector<float> gradient(40, 0.0F);
  gradient[33] = NAN;
  std::vector<float> peaks(2);
  accumulate_residual(1, 1, gradient, residual, peaks);
  EXPECT_EQ(peaks[0], 1);
  EXPECT_GT(magnitude(peaks[1]), magnitude_infinite) << "a NaN is a peak";
}

TEST(Kernels, AddScaledReadsBytesAtAnyAddress) {
  const std::vector<float> values = coarse(100, 4);
  Bytes shifted(3 + values.size() * sizeof(float));
  std::memcpy(shifted.data() + 3, values.data(), values.size() * sizeof(float));
  std::vector<float> sum(values.size(), 1);
  add_scaled(0.5F, BytesView(shifted).subspan(3), sum);
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(sum[i], 1 + 0.5F * values[i]);
}

TEST(Kernels, NonFiniteValuesAreFound) {
  std::vector<float> values(100, -3.0e38F);
  EXPECT_TRUE(all_finite(values));
  EXPECT_EQ(find_non_finite(values), values.size());
  values[99] = NAN;
  EXPECT_FALSE(all_finite(values));
  EXPECT_EQ(find_non_finite(values), 99);
}

TEST(Kernels, SumOfSquaresCountsEveryValue) {
  for (const std::size_t n : {0, 1, 7, 8, 9, 1'003})
    EXPECT_EQ(sum_of_squares(std::vector<float>(n, -2)), 4.0 * static_cast<double>(n));
}

}  // namespace
}  // namespace weir::compressors::test
