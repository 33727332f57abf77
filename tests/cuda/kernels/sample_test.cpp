#include "cuda/kernels/sample.hpp"

#include <algorithm>

#include "compressors/kernels/random/random.hpp"
#include "compressors/kernels/selection/sample.hpp"
#include "compressors/kernels/selection/selection.hpp"
#include "tests/cuda/kernels/support.hpp"

namespace weir::cuda {
namespace {

TEST(CudaSample, CutIsThatOfTheTwin) {
  for (const std::size_t n : {1, 33, 1025, 100'003}) {  // the emulator is slow where a thousand threads meet often
    for (const Among among : all_kinds) {
      const auto values = some_values(n, among);
      const Array<float> x(values, n % 4);
      for (const std::size_t stride : {1, 3, 4, 33}) {
        const std::size_t count = n / stride;
        // Of the largest tensor also samples a little below and above 2^15 values, which go different ways.
        if (count == 0 || ((stride == 3 || stride == 4) && count < 20'000)) continue;
        SCOPED_TRACE(named(n, among) + ", every " + std::to_string(stride));
        const std::size_t first = (n - 1 - (count - 1) * stride) / 2;
        for (const std::size_t rank : {std::size_t{1}, count / 10 + 1, count}) {
          const Array<float> sampled(count);
          const Array<std::byte> scratch(CutScratch::bytes(count));
          const Array<Cut> cut(1);
          const SampledCut it{x.data(), {first, stride, count}, rank, cut.data()};
          sampled_cuts(std::span(&it, 1), sampled.data(), {scratch.data()}, nullptr).value();
          ASSERT_EQ(cut.read()[0].magnitude, compressors::sampled_cut(values, {}, {first, stride, count}, rank));
          ASSERT_EQ(cut.read()[0].ties, Cut::all);
        }
      }
    }
  }
}

TEST(CudaSample, EachOfManyTensorsGetsItsCut) {
  // More than one launch takes, and among them two whose samples are not small.
  std::vector<std::size_t> all(60, 100);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] += 7 * i;
  all[7] = 40'000;
  all[50] = 34'000;
  std::vector<std::vector<float>> values;
  std::vector<Array<float>> tensors;
  std::vector<SampledCut> given;
  const Array<Cut> cuts(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t stride = all[i] > 10'000 ? 1 : i % 3 + 1;
    values.push_back(some_values(all[i], Among::zeros, static_cast<unsigned>(i)));
    tensors.emplace_back(values[i], i % 4);
    const std::size_t count = all[i] / stride;
    given.push_back({tensors[i].data(), {0, stride, count}, count / 10, cuts.data() + i});
  }
  const std::size_t largest = 40'000;
  const Array<float> sampled(largest);
  const Array<std::byte> scratch(CutScratch::bytes(largest));
  sampled_cuts(given, sampled.data(), {scratch.data()}, nullptr).value();
  const auto found = cuts.read();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& [first, stride, count] = given[i].sample;
    ASSERT_EQ(found[i].magnitude, compressors::sampled_cut(values[i], {}, {first, stride, count}, given[i].rank)) << i;
    ASSERT_EQ(found[i].ties, Cut::all);
  }
}

TEST(CudaSample, MagnitudesAreThoseOfTheRuns) {
  for (const std::size_t n : sizes) {
    const auto values = some_values(n, Among::extremes);
    const Array<float> x(values, n % 4);
    for (const std::size_t distance : {16, 48}) {
      SCOPED_TRACE(std::to_string(n) + ", every " + std::to_string(distance));
      std::vector<float> due;
      std::uint64_t count = 0;
      for (std::size_t at = 0; at + 16 <= n; at += distance, ++count) {
        for (std::size_t i = at; i < at + 16; ++i) due.push_back(std::abs(values[i]));
      }
      const Array<float> found(due.size());
      sample_magnitudes(x.data(), {.length = 16, .distance = distance, .count = count}, found.data(), nullptr).value();
      ASSERT_TRUE(same_bits(found.read(), due));
    }
  }
}

struct Drawn {
  std::vector<std::uint32_t> positions;
  std::vector<std::uint32_t> lengths;  ///< of the strata
};

/// What Strata draws, which goes from one stratum to the next.
Drawn drawn_of(std::uint64_t n, std::uint64_t count, const compressors::RandomKey& key) {
  Drawn drawn;
  std::vector<std::uint32_t> words(count);
  compressors::fill_random(key, 0, words);
  std::uint64_t start = 0;
  std::uint64_t fraction = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    fraction += n % count;
    const bool is_longer = fraction >= count;
    if (is_longer) fraction -= count;
    const std::uint64_t length = n / count + is_longer;
    drawn.positions.push_back(static_cast<std::uint32_t>(start + (words[i] * length >> 32)));
    drawn.lengths.push_back(static_cast<std::uint32_t>(length));
    start += length;
  }
  return drawn;
}

TEST(CudaSample, DrawnEntriesAreOnesOfEachStratum) {
  const compressors::RandomKey due_key = {.seed = 5, .step = 77, .tensor = 3, .stream = 0};
  const RandomKey key = {.seed = 5, .step = 77, .tensor = 3, .stream = 0};
  for (const std::size_t n : sizes) {
    for (const std::size_t count : {std::size_t{1}, n / 100, n / 3, n}) {
      if (count == 0 || count > n) continue;
      for (const Among among : {Among::nothing, Among::extremes, Among::non_finite}) {
        SCOPED_TRACE(named(n, among) + ", of which " + std::to_string(count));
        const auto values = some_values(n, among);
        const bool is_unbiased = n % 2 == 0 || among == Among::extremes;
        const Drawn due = drawn_of(n, count, due_key);
        std::vector<float> due_values(count);
        std::uint32_t largest = 0;
        for (std::size_t i = 0; i < count; ++i) {
          constexpr float most = std::numeric_limits<float>::max();
          const float value = values[due.positions[i]];
          largest = std::max(largest, compressors::magnitude(value));
          due_values[i] = std::clamp(is_unbiased ? value * static_cast<float>(due.lengths[i]) : value, -most, most);
        }
        const Draw what{.key = key, .n = n, .count = count, .is_unbiased = is_unbiased};
        const Array<float> drawn(count, 2);
        const Reported report;
        draw(Array<float>(values, n % 4).data(), what, drawn.data(), report.at(), nullptr).value();
        ASSERT_EQ(report.read().largest, largest);
        if (largest < magnitude_infinite) {
          ASSERT_TRUE(same_bits(drawn.read(), due_values));
        }
      }
    }
  }
}

}  // namespace
}  // namespace weir::cuda
