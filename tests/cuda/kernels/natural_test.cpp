#include "cuda/kernels/natural.hpp"

#include <algorithm>

#include "compressors/kernels/quantization/quantize.hpp"
#include "compressors/kernels/random/random.hpp"
#include "tests/cuda/kernels/support.hpp"

namespace weir::cuda {
namespace {

const compressors::RandomKey due_key = {.seed = 5, .step = 77, .tensor = 3, .stream = 2};
const RandomKey key = {.seed = 5, .step = 77, .tensor = 3, .stream = 2};

/// As Natural::write(); false if a value is not finite.
bool due_natural(std::span<const float> values, std::span<std::byte> code) {
  std::vector<std::uint32_t> words(values.size());
  compressors::fill_random(due_key, 0, words);
  const auto first = compressors::extremes_of(values.first(std::min<std::size_t>(4096, values.size()))).magnitude;
  if (first >= magnitude_infinite) return false;
  int window = compressors::natural_window(first) + (values.size() > 4096 ? 24 : 0);
  window = std::min(window, compressors::natural_window_max);
  if (!compressors::write_natural(values, words, window, code.subspan(1))) {
    const std::uint32_t largest = compressors::extremes_of(values).magnitude;
    if (largest >= magnitude_infinite) return false;
    window = compressors::natural_window(largest);
    compressors::write_natural(values, words, window, code.subspan(1));
  }
  code[0] = static_cast<std::byte>(window);
  return true;
}

void compare(const std::vector<float>& values) {
  const std::size_t n = values.size();
  std::vector<std::byte> due(1 + n);
  const bool finite = due_natural(values, due);
  const Array<std::byte> code(due.size(), n % 9);
  const Array<NaturalWindow> window(1);
  const Reported report;
  const Array<float> x(values, n % 4);
  write_natural(one(NaturalToWrite{x.data(), n, key, window.data(), code.data(), report.at()}), nullptr).value();
  ASSERT_EQ(report.read().largest < magnitude_infinite, finite);
  if (!finite) return;
  ASSERT_TRUE(same_bits(code.read(), due));
  auto due_sum = some_values(n, Among::nothing, 2);
  const Array<float> sum(due_sum, n % 3);
  compressors::add_natural(std::span(due).subspan(1), std::to_integer<int>(due[0]), 0.7F, due_sum);
  add_natural(one(CodeToAdd{code.data(), n, 0.7F, sum.data()}), nullptr).value();
  ASSERT_TRUE(same_bits(sum.read(), due_sum));
}

TEST(CudaNatural, CodeIsThatOfTheTwin) {
  for (const std::size_t n : sizes) {
    for (const Among among : all_kinds) {
      SCOPED_TRACE(named(n, among));
      if (n > 0) compare(some_values(n, among));
    }
  }
}

TEST(CudaNatural, LargeValueBehindTheSampleMovesTheWindow) {
  auto values = some_values(10'000, Among::zeros);
  values[9'000] = 1e30F;
  compare(values);
}

}  // namespace
}  // namespace weir::cuda
