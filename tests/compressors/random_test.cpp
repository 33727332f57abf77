#include "compressors/kernels/random/random.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "base/philox.hpp"
#include "base/processor.hpp"
#include "compressors/kernels/pack.hpp"

namespace weir::compressors::test {
namespace {

constexpr RandomKey key{.seed = 0x123456789ABCDEF0, .step = 0x123456789A, .tensor = 7, .stream = 3};

TEST(Random, IsAPureFunctionOfKeyAndPosition) {
  std::vector<std::uint32_t> all(64 * 9 + 5);
  fill_random(key, 0, all);
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], random_word(key, i)) << i;
  std::vector<std::uint32_t> part(70);
  fill_random(key, 128, part);
  for (std::size_t i = 0; i < part.size(); ++i) EXPECT_EQ(part[i], all[128 + i]);
  for (const Kernels kernels : {Kernels::avx2, Kernels::portable}) {
    const KernelsUpTo simpler(kernels);
    std::vector<std::uint32_t> again(all.size());
    fill_random(key, 0, again);
    EXPECT_EQ(all, again);
  }
}

TEST(Random, IsPhiloxAtTheStatedCounter) {
  const Philox::Block words = Philox(key.seed).at({8 * 2 + 5, 7, 0x3456789A, 0x12 | 3U << 16});
  EXPECT_EQ(random_word(key, 2 * 64 + 5), words[0]);
  EXPECT_EQ(random_word(key, 2 * 64 + 16 + 5), words[1]);
  EXPECT_EQ(random_word(key, 2 * 64 + 48 + 8 + 5), words[3] << 16 | words[3] >> 16);
}

TEST(Random, DiffersByEveryPartOfTheKey) {
  const std::uint32_t word = random_word(key, 99);
  for (RandomKey other :
       {RandomKey{key.seed + 1, key.step, key.tensor, key.stream},
        RandomKey{key.seed, key.step + 1, key.tensor, key.stream},
        RandomKey{key.seed, key.step + (std::uint64_t{1} << 32), key.tensor, key.stream},
        RandomKey{key.seed, key.step, key.tensor + 1, key.stream}, RandomKey{key.seed, key.step, key.tensor, 4}}) {
    EXPECT_NE(random_word(other, 99), word);
  }
}

TEST(Pack, IsUndoneByUnpack) {
  for (unsigned bits = 1; bits <= 8; ++bits) {
    for (const std::size_t count : {0, 1, 7, 8, 9, 63, 64, 65, 1'001}) {
      std::vector<std::uint8_t> codes(count);
      for (std::size_t i = 0; i < count; ++i) codes[i] = static_cast<std::uint8_t>(random_word(key, i) >> (32 - bits));
      Bytes packed(packed_bytes(count, bits), std::byte{0xFF});
      pack(codes, bits, packed);
      EXPECT_TRUE(padding_is_zero(packed, count, bits));
      std::vector<std::uint8_t> back(count, 0xEE);
      unpack(packed, bits, back);
      EXPECT_EQ(back, codes);
      const KernelsUpTo portable(Kernels::portable);
      Bytes again(packed.size());
      pack(codes, bits, again);
      EXPECT_EQ(again, packed);
      unpack(packed, bits, back);
      EXPECT_EQ(back, codes);
    }
  }
}

}  // namespace
}  // namespace weir::compressors::test
