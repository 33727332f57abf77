#include "cuda/kernels/half.hpp"

#include "base/half.hpp"
#include "tests/cuda/kernels/support.hpp"

namespace weir::cuda {
namespace {

template <class Number>
class CudaHalf : public testing::Test {};
using Numbers = testing::Types<Half, BFloat16>;
TYPED_TEST_SUITE(CudaHalf, Numbers);

TYPED_TEST(CudaHalf, NumbersAreThoseOfTheTwin) {
  for (const std::size_t n : sizes) {
    for (const Among among : all_kinds) {
      for (const float share : {1.0F, 1 / 3.0F}) {
        SCOPED_TRACE(named(n, among));
        const auto values = some_values(n, among);
        std::vector<float> shares = values;
        for (float& value : shares) value *= share;
        std::vector<TypeParam> due(n);
        const bool finite = weir::round_to(shares, std::span(due));
        const Array<TypeParam> to(n, n % 3);
        const Reported report;
        round_to(Array<float>(values, n % 4).data(), n, share, to.data(), report.at(), nullptr).value();
        ASSERT_EQ(report.read().largest < magnitude_infinite, finite);
        if (!finite) continue;
        ASSERT_TRUE(same_bits(to.read(), due));
      }
    }
  }
}

TYPED_TEST(CudaHalf, SumIsThatOfTheTwin) {
  std::vector<TypeParam> numbers(1 << 16);  // all there are
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i].bits = static_cast<std::uint16_t>(i);
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{1023}, std::size_t{0x7C00}, numbers.size()}) {
    const std::span<const TypeParam> from = std::span(numbers).first(n);
    auto due = some_values(n, Among::extremes);
    const Array<float> sum(due, n % 4);
    const bool finite = weir::add_scaled(0.7F, from, std::span(due));
    const Reported report;
    add_scaled(0.7F, Array<TypeParam>(from, n % 3).data(), n, sum.data(), report.at(), nullptr).value();
    EXPECT_EQ(report.read().misfit == 0, finite) << n;
    EXPECT_TRUE(same_bits(sum.read(), due)) << n;
  }
}

TYPED_TEST(CudaHalf, WidenedNumbersAreASumWithZeros) {
  std::vector<TypeParam> numbers(1 << 16);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i].bits = static_cast<std::uint16_t>(i);
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{1023}, std::size_t{0x7C00}, numbers.size()}) {
    const std::span<const TypeParam> from = std::span(numbers).first(n);
    std::vector<float> due(n);
    const bool finite = weir::add_scaled(1, from, std::span(due));
    const Array<float> to(n, n % 4);
    const Reported report;
    widen(Array<TypeParam>(from, n % 3).data(), n, to.data(), report.at(), nullptr).value();
    EXPECT_EQ(report.read().misfit == 0, finite) << n;
    EXPECT_TRUE(same_bits(to.read(), due)) << n;
  }
}

}  // namespace
}  // namespace weir::cuda
