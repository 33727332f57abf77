#include "cuda/kernels/draw.hpp"

#include <algorithm>

#include "compressors/kernels/random/draw.hpp"
#include "compressors/kernels/random/random.hpp"
#include "compressors/kernels/selection/selection.hpp"
#include "tests/cuda/kernels/support.hpp"

namespace weir::cuda {
namespace {

TEST(CudaDraw, SumsOfMagnitudesAreThoseOfTheTwin) {
  for (const std::size_t n : sizes) {
    for (const Among among : all_kinds) {
      for (const std::uint32_t below : {~0U, compressors::magnitude(0.25F), 1U}) {
        SCOPED_TRACE(named(n, among) + " below " + std::to_string(below));
        const auto values = some_values(n, among);
        compressors::MagnitudeSums due;
        for (std::size_t start = 0; start < n; start += 16384) {
          const auto part = std::span(values).subspan(start, std::min<std::size_t>(16384, n - start));
          const auto sums = compressors::sum_magnitudes(part, below);
          due.sum += sums.sum;
          due.largest = std::max(due.largest, sums.largest);
          due.nonzeros += sums.nonzeros;
        }
        const Array<MagnitudeSums> parts(magnitude_sum_parts(n));
        const Array<MagnitudeSums> sums(1);
        magnitude_sums(Array<float>(values, n % 4).data(), n, below, parts.data(), sums.data(), nullptr).value();
        const MagnitudeSums found = sums.read()[0];
        EXPECT_EQ(found.largest, due.largest);
        if (due.largest >= magnitude_infinite) continue;
        EXPECT_EQ(found.nonzeros, due.nonzeros);
        EXPECT_EQ(std::bit_cast<std::uint64_t>(found.sum), std::bit_cast<std::uint64_t>(due.sum));
      }
    }
  }
}

TEST(CudaDraw, SumsOfManyPartsAreThoseOfTheTwin) {
  std::vector<float> values(1025 * 16384 + 5);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 2654435761U % 65521) - 32760;
  compressors::MagnitudeSums due;
  for (std::size_t start = 0; start < values.size(); start += 16384) {
    const auto part = std::span(values).subspan(start, std::min<std::size_t>(16384, values.size() - start));
    const auto sums = compressors::sum_magnitudes(part);
    due.sum += sums.sum;
    due.largest = std::max(due.largest, sums.largest);
    due.nonzeros += sums.nonzeros;
  }
  const Array<MagnitudeSums> parts(magnitude_sum_parts(values.size()));
  const Array<MagnitudeSums> sums(1);
  magnitude_sums(Array<float>(values).data(), values.size(), ~0U, parts.data(), sums.data(), nullptr).value();
  const MagnitudeSums found = sums.read()[0];
  EXPECT_EQ(found.largest, due.largest);
  EXPECT_EQ(found.nonzeros, due.nonzeros);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(found.sum), std::bit_cast<std::uint64_t>(due.sum));
}

/// What an entry is decoded to if it is drawn: as HostValues::draw().
float due_of(float value, float level, const compressors::RandomKey& key, std::uint64_t entry) {
  const double size = std::abs(static_cast<double>(value));
  const double p = size == 0 ? 0 : size >= static_cast<double>(level) ? 1 : size / static_cast<double>(level);
  const double rest = p * 0x1p32 - static_cast<double>(compressors::random_word(key, entry));
  const bool is_drawn =
      rest > 0 &&
      (rest >= 1 || static_cast<double>(compressors::random_word(key, (1ULL << 32) + entry)) < rest * 0x1p32);
  if (!is_drawn) return 0;
  return size > static_cast<double>(level) ? value : std::copysign(level, value);
}

constexpr RandomKey key{.seed = 7, .step = 5, .tensor = 3, .stream = 2};
constexpr compressors::RandomKey same{.seed = 7, .step = 5, .tensor = 3, .stream = 2};

void expect_drawn(const std::vector<float>& values, float level) {
  const std::size_t n = values.size();
  std::vector<float> due(n);
  for (std::size_t i = 0; i < n; ++i) due[i] = due_of(values[i], level, same, i);
  const Array<float> drawn(n, 1);
  draw_by_magnitude(Array<float>(values, n % 4).data(), n, key, level, drawn.data(), nullptr).value();
  ASSERT_TRUE(same_bits(drawn.read(), due));
}

TEST(CudaDraw, DrawnAreThoseOfTheTwin) {
  for (const std::size_t n : sizes) {
    for (const Among among : {Among::nothing, Among::zeros, Among::only_zeros, Among::extremes}) {
      for (const float level : {0.0F, 1e-40F, 0.3F, 1e30F}) {
        SCOPED_TRACE(named(n, among) + " at level " + std::to_string(level));
        expect_drawn(some_values(n, among), level);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(CudaDraw, SoAreThoseWhoseProbabilityIsNearTheirWord) {
  for (const float level : {0x1p-30F, 3.0F}) {
    for (const double distance : {-3e9, -4096.0, -256.0, -1.0, 0.0, 0.5, 1.0, 256.0, 4096.0}) {
      SCOPED_TRACE(std::to_string(distance) + " from the word, at level " + std::to_string(level));
      std::vector<float> values(10'001);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double word = compressors::random_word(same, i);
        values[i] = static_cast<float>((word + distance) * 0x1p-32 * static_cast<double>(level));
      }
      expect_drawn(values, level);
      if (HasFatalFailure()) return;
    }
  }
}

// Of small words: so many bits has a probability only there.
TEST(CudaDraw, TheSecondWordDecidesBetweenTwoFirstOnes) {
  std::vector<float> values(sizes.back());
  std::size_t between = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t word = compressors::random_word(same, i);
    if (word >= 1U << 23) continue;
    values[i] = static_cast<float>(word) + 0.5F;
    ++between;
  }
  ASSERT_GT(between, 100);
  expect_drawn(values, 0x1p32F);
}

}  // namespace
}  // namespace weir::cuda
