#include "base/half.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace weir {
namespace {

constexpr float float_max = std::numeric_limits<float>::max();

/// What a 16-bit float is, from its definition.
double value_of(Half half) {
  const int exponent = half.bits >> 10 & 0x1F;
  const double fraction = half.bits & 0x3FF;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1 + fraction / 1024, exponent - 15);
  return half.bits & 0x8000 ? -magnitude : magnitude;
}
double value_of(BFloat16 number) {
  const int exponent = number.bits >> 7 & 0xFF;
  const double fraction = number.bits & 0x7F;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -133) : std::ldexp(1 + fraction / 128, exponent - 127);
  return number.bits & 0x8000 ? -magnitude : magnitude;
}

struct HalfFormat {
  using Number = Half;
  static constexpr int significant = 11, exponent_min = -14;
  static constexpr double largest = 65504;
  static constexpr std::uint32_t infinity = 0x7C00;
  static Number rounded(float value) { return to_half(value); }
};
struct BFloat16Format {
  using Number = BFloat16;
  static constexpr int significant = 8, exponent_min = -126;
  static constexpr double largest = 0x1.FEp127;
  static constexpr std::uint32_t infinity = 0x7F80;
  static Number rounded(float value) { return to_bfloat16(value); }
};

/// The nearest number of the format, ties to even, at most the largest: by the rounding of doubles.
template <class Format>
double nearest(double value) {
  int exponent = 0;
  std::frexp(value, &exponent);  // value = [1/2, 1) * 2^exponent
  const double unit = std::ldexp(1, std::max(exponent - 1, Format::exponent_min) - Format::significant + 1);
  const double rounded = std::nearbyint(value / unit) * unit;
  return std::copysign(std::min(std::abs(rounded), Format::largest), value);
}

/// Every exponent, every kind of tie, both signs.
std::vector<float> awkward() {
  std::vector<float> values = {0.0F, -0.0F, 65504.0F, 65519.99F, 65520.0F, 65536.0F, -1e6F, float_max, -float_max};
  std::mt19937 random(1);
  for (std::uint32_t field = 0; field < 255; ++field) {
    for (const std::uint32_t fraction : {0U, 1U, 0x7FFFFFU, 0x7FF000U, 0x1000U, 0xFFFU, 0x1001U, 0x3000U, 0x8000U,
                                         0x7FFFU, 0x8001U, 0x18000U, 0x7F8000U, 0x7F7FFFU, 0x400000U}) {
      values.push_back(std::bit_cast<float>(field << 23 | fraction));
      values.push_back(std::bit_cast<float>(0x80000000 | field << 23 | fraction));
    }
    for (int i = 0; i < 100; ++i) {
      values.push_back(std::bit_cast<float>(field << 23 | static_cast<std::uint32_t>(random() & 0x807FFFFF)));
    }
  }
  return values;
}

template <class Format>
class Rounding : public ::testing::Test {
 protected:
  using Number = typename Format::Number;
  static std::vector<Number> all_numbers() {
    std::vector<Number> all;
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) all.push_back({static_cast<std::uint16_t>(bits)});
    return all;
  }
  static bool finite(Number number) { return (number.bits & 0x7FFF) < Format::infinity; }
};
using Formats = ::testing::Types<HalfFormat, BFloat16Format>;
TYPED_TEST_SUITE(Rounding, Formats);

TYPED_TEST(Rounding, GivesTheNearestAndSaturates) {
  for (const float value : awkward()) {
    const auto rounded = TypeParam::rounded(value);
    ASSERT_EQ(value_of(rounded), nearest<TypeParam>(value)) << value;
    ASSERT_EQ((rounded.bits & 0x8000) != 0, std::signbit(value)) << value;
  }
  EXPECT_EQ(value_of(TypeParam::rounded(INFINITY)), TypeParam::largest);
  EXPECT_EQ(value_of(TypeParam::rounded(-INFINITY)), -TypeParam::largest);
}

TYPED_TEST(Rounding, WideningIsExactAndRoundingItBackChangesNothing) {
  for (const auto number : this->all_numbers()) {
    const float wide = to_float(number);
    if (this->finite(number)) {
      ASSERT_EQ(wide, value_of(number));
      ASSERT_EQ(TypeParam::rounded(wide).bits, number.bits);
    } else if ((number.bits & 0x7FFF) == TypeParam::infinity) {
      ASSERT_TRUE(std::isinf(wide));
    } else {
      ASSERT_TRUE(std::isnan(wide));
      ASSERT_TRUE(std::isnan(to_float(TypeParam::rounded(wide)))) << "a NaN does not turn into a number";
    }
  }
}

TYPED_TEST(Rounding, LoopsGiveTheBitsOfSingleConversions) {
  using Number = typename TypeParam::Number;
  std::vector<float> values = awkward();
  for (const std::size_t size : {values.size(), std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{37}}) {
    values.resize(size);
    std::vector<Number> rounded(size);
    EXPECT_TRUE(round_to(values, rounded));
    for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(rounded[i].bits, TypeParam::rounded(values[i]).bits) << i;
  }
}

TYPED_TEST(Rounding, SumsAreRoundedAndSaturate) {
  using Number = typename TypeParam::Number;
  std::vector<Number> left = this->all_numbers();
  std::vector<Number> right = left;
  std::mt19937 random(2);
  std::shuffle(right.begin(), right.end(), random);
  left.resize(left.size() - 3);  // not a whole number of vectors
  right.resize(left.size());
  const std::vector<Number> before = left;
  add(right, left);
  for (std::size_t i = 0; i < left.size(); ++i) {
    const float sum = to_float(before[i]) + to_float(right[i]);
    if (std::isnan(sum)) {
      ASSERT_TRUE(std::isnan(to_float(left[i])));
    } else {
      ASSERT_EQ(value_of(left[i]), nearest<TypeParam>(std::isinf(sum) ? std::copysign(1e300, sum) : double{sum}));
    }
  }
}

TYPED_TEST(Rounding, AddsWithAWeight) {
  using Number = typename TypeParam::Number;
  std::vector<Number> numbers;
  for (const Number number : this->all_numbers()) {
    if (this->finite(number)) numbers.push_back(number);
  }
  std::vector<float> sum(numbers.size(), 3.0F);
  ASSERT_TRUE(add_scaled(0.3F, std::span<const Number>(numbers), sum));
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const float term = 0.3F * to_float(numbers[i]);
    ASSERT_EQ(sum[i], 3.0F + term);
  }
}

TYPED_TEST(Rounding, NoticesWhatIsNotFiniteAtEveryPlace) {
  using Number = typename TypeParam::Number;
  for (const float bad : {NAN, -NAN, INFINITY, -INFINITY}) {
    for (std::size_t size = 1; size < 40; ++size) {
      for (std::size_t at = 0; at < size; ++at) {
        std::vector<float> values(size, float_max);
        values[at] = bad;
        std::vector<Number> numbers(size);
        EXPECT_FALSE(round_to(values, numbers));
        std::fill(numbers.begin(), numbers.end(), TypeParam::rounded(float_max));
        std::fill(values.begin(), values.end(), 0.0F);
        EXPECT_TRUE(add_scaled(1e-3F, std::span<const Number>(numbers), values));
        numbers[at].bits = static_cast<std::uint16_t>(TypeParam::infinity | (std::isnan(bad) ? 1 : 0) |
                                                      (std::signbit(bad) ? 0x8000 : 0));
        EXPECT_FALSE(add_scaled(1e-3F, std::span<const Number>(numbers), values));
      }
    }
  }
}

}  // namespace
}  // namespace weir
