#include "collectives/packing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/errc.hpp"
#include "base/processor.hpp"

namespace weir::collectives {
namespace {

/// Numbers as a buffer has them, made of float32.
Bytes numbers_of(Element element, const std::vector<float>& values) {
  Bytes bytes(values.size() * bytes_of(element));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    const auto upper = static_cast<std::uint16_t>(bits >> 16);
    if (element == Element::float32) {
      std::memcpy(bytes.data() + 4 * i, &bits, 4);
    } else {
      std::memcpy(bytes.data() + 2 * i, &upper, 2);
    }
  }
  return bytes;
}

Bytes packed(Element element, BytesView numbers) {
  Bytes out(packed_bytes_max(numbers.size()));
  out.resize(pack(element, numbers, out));
  return out;
}

std::vector<float> normal(std::size_t count, float deviation) {
  std::mt19937 random(7);
  std::normal_distribution<float> values(0, deviation);
  std::vector<float> made(count);
  for (float& value : made) value = values(random);
  return made;
}

std::vector<float> any_bits(std::size_t count) {
  std::mt19937 random(9);
  std::vector<float> made(count);
  for (float& value : made) value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
  return made;
}

struct Kind {
  const char* name;
  std::vector<float> values;
};

std::vector<Kind> kinds() {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> wide = normal(1000, 1);
  for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = std::ldexp(wide[i], static_cast<int>(i % 61) - 30);
  std::vector<float> sparse(1000);
  for (std::size_t i = 0; i < sparse.size(); i += 97) sparse[i] = 0.5F;
  std::vector<float> odd = normal(1000, 1);
  odd[3] = infinity;
  odd[40] = -infinity;
  odd[77] = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t i = 128; i < 160; ++i) odd[i] = -0.0F;
  for (std::size_t i = 192; i < 224; ++i) odd[i] = std::numeric_limits<float>::denorm_min() * static_cast<float>(i);
  return {{"normal", normal(1000, 1e-3F)}, {"wide", wide},         {"sparse", sparse}, {"odd", odd},
          {"bits", any_bits(1000)},        {"ones", {1000, 1.0F}}, {"none", {}}};
}

TEST(Packing, GivesEveryBitBackOnEveryProcessor) {
  for (const Element element : {Element::float32, Element::bfloat16}) {
    for (const Kind& kind : kinds()) {
      for (std::size_t count = 0; count <= kind.values.size(); count += count < 70 ? 1 : 93) {
        SCOPED_TRACE(std::string(name_of(element)) + " " + kind.name + " " + std::to_string(count));
        const Bytes numbers = numbers_of(element, {kind.values.begin(), kind.values.begin() + count});
        const Bytes fast = packed(element, numbers);
        ASSERT_LE(fast.size(), packed_bytes_max(numbers.size()));
        Bytes back(numbers.size());
        ASSERT_TRUE(unpack(fast, back));
        ASSERT_EQ(back, numbers);
        const KernelsUpTo portable(Kernels::portable);
        ASSERT_EQ(packed(element, numbers), fast);
        std::ranges::fill(back, std::byte{1});
        ASSERT_TRUE(unpack(fast, back));
        ASSERT_EQ(back, numbers);
      }
    }
  }
}

double share(Element element, const std::vector<float>& values) {
  const Bytes numbers = numbers_of(element, values);
  return static_cast<double>(packed(element, numbers).size()) / static_cast<double>(numbers.size());
}

TEST(Packing, TakesAsFewBytesAsItSays) {
  const auto gradient = normal(1 << 16, 1e-3F);
  EXPECT_NEAR(share(Element::float32, gradient), usual_packed_share(Element::float32), 0.002);
  EXPECT_NEAR(share(Element::bfloat16, gradient), usual_packed_share(Element::bfloat16), 0.002);
  const std::vector<float> zeros(1 << 16);
  EXPECT_LT(share(Element::float32, zeros), 0.008);
  EXPECT_LT(share(Element::bfloat16, zeros), 0.016);
  const auto noise = any_bits(1 << 16);
  EXPECT_LT(share(Element::float32, noise), 1.01) << "what does not pack takes no more than a head for each block";
  EXPECT_LT(share(Element::bfloat16, noise), 1.02);
}

TEST(Packing, RefusesWhatIsNotWhole) {
  for (const Element element : {Element::float32, Element::bfloat16}) {
    for (const Kind& kind : kinds()) {
      const std::size_t count = std::min<std::size_t>(kind.values.size(), 70);
      const Bytes numbers = numbers_of(element, {kind.values.begin(), kind.values.begin() + count});
      Bytes whole = packed(element, numbers);
      Bytes back(numbers.size());
      for (std::size_t length = 0; length < whole.size(); ++length) {
        const auto cut = unpack(BytesView(whole).first(length), back);
        ASSERT_FALSE(cut) << kind.name << " " << length;
        ASSERT_EQ(cut.error().code, Errc::malformed);
      }
      whole.push_back(std::byte{0});
      EXPECT_FALSE(unpack(whole, back)) << kind.name << ": a byte too many";
    }
  }
}

TEST(Packing, RefusesNumbersOfAnotherType) {
  const Bytes whole = packed(Element::float32, numbers_of(Element::float32, normal(64, 1)));
  for (int element = 0; element < 256; ++element) {
    if (element == static_cast<int>(Element::float32)) continue;
    Bytes other = whole;
    other[0] = static_cast<std::byte>(element);
    Bytes back(64 * sizeof(float));
    EXPECT_FALSE(unpack(other, back)) << element;
  }
}

TEST(Packing, AnyBytesAreNumbersOrMalformed) {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    Bytes bytes(random() % 600);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    if (!bytes.empty()) bytes[0] = static_cast<std::byte>(random() % 3);
    Bytes back(4 * (random() % 130));
    const auto unpacked = unpack(bytes, back);
    EXPECT_TRUE(unpacked || unpacked.error().code == Errc::malformed);
  }
}

}  // namespace
}  // namespace weir::collectives
