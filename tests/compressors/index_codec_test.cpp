#include "compressors/codecs/index_codec.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "base/errc.hpp"
#include "base/philox.hpp"

namespace weir::compressors::test {
namespace {

using Positions = std::vector<std::uint32_t>;

/// Each of `entries` positions with probability `share`.
Positions random_positions(std::uint32_t entries, double share, std::uint64_t seed) {
  Positions positions;
  const auto below = static_cast<std::uint32_t>(share * 4294967295.0);
  for (std::uint32_t i = 0; i < entries; ++i) {
    if (Philox(seed).at(0, 0, i)[0] < below) positions.push_back(i);
  }
  return positions;
}

class IndexCodecs : public ::testing::TestWithParam<const IndexCodec*> {
 protected:
  const IndexCodec& codec_ = *GetParam();

  Bytes encode(const Positions& positions, std::uint64_t entries) {
    Bytes out(codec_.bytes(positions, entries), std::byte{0xEE});
    codec_.encode(positions, entries, out);
    return out;
  }
  Result<Positions> decode(const Bytes& bytes, std::uint64_t entries, std::size_t count) {
    Positions positions(count);
    const auto done = codec_.decode(bytes, entries, positions);
    if (!done) return done.error();
    return positions;
  }
};

INSTANTIATE_TEST_SUITE_P(All, IndexCodecs, ::testing::ValuesIn(index_codecs().begin(), index_codecs().end()),
                         [](const auto& info) { return std::string(info.param->name); });

TEST_P(IndexCodecs, RoundTrip) {
  constexpr std::uint64_t most = 0xFFFF'FFFF;
  Positions all(100);
  std::iota(all.begin(), all.end(), 0U);
  const std::vector<std::pair<Positions, std::uint64_t>> inputs = {
      {{}, 0},    {{}, 17},    {{0}, 1},       {{0}, most}, {{most - 1}, most},   {{0, most - 1}, most},
      {all, 100}, {{99}, 100}, {{0, 99}, 100}, {all, 101},  {{7, 8, 63, 64}, 65}, {all, most},
  };
  for (const auto& [positions, entries] : inputs) {
    if (codec_.bytes(positions, entries) > 1 << 24) continue;  // a bitmap of everything
    EXPECT_EQ(decode(encode(positions, entries), entries, positions.size()).value(), positions) << entries;
  }
  for (const double share : {0.001, 0.02, 0.3, 0.9}) {
    const Positions positions = random_positions(30'011, share, 5);
    EXPECT_EQ(decode(encode(positions, 30'011), 30'011, positions.size()).value(), positions) << share;
  }
}

TEST_P(IndexCodecs, AcceptsOnlyWhatEncodeWrites) {
  const std::vector<std::pair<Positions, std::uint64_t>> inputs = {{{3, 4, 17, 40, 59}, 60},
                                                                   {{3, 4, 4'096, 4'097, 8'200}, 8'201},
                                                                   {{3, 4'099, 8'200}, 8'201},
                                                                   {{3, 4, 5'000, 66'000, 69'999}, 70'000}};
  for (const auto& [positions, entries] : inputs) {
    const Bytes good = encode(positions, entries);
    EXPECT_FALSE(decode(good, entries, positions.size() + 1));
    EXPECT_FALSE(decode(good, entries, positions.size() - 1));
    EXPECT_FALSE(decode(good, entries - 1, positions.size()));
    EXPECT_FALSE(decode(good, entries, entries + 1));
    EXPECT_FALSE(decode({}, entries, positions.size()));
    for (const unsigned more : {0U, 1U, 0x80U, 0xFFU}) {
      Bytes longer = good;
      longer.push_back(static_cast<std::byte>(more));
      EXPECT_FALSE(decode(longer, entries, positions.size()));
      EXPECT_FALSE(decode(longer, entries, positions.size() + 1) &&
                   encode(*decode(longer, entries, positions.size() + 1), entries) != longer);
    }
    for (std::size_t at = 0; at<good.size(); at += good.size()> 2'000 ? 97 : 1) {
      for (unsigned value = 0; value < 256; ++value) {
        Bytes hostile = good;
        hostile[at] = static_cast<std::byte>(value);
        const auto result = decode(hostile, entries, positions.size());
        if (!result) {
          EXPECT_EQ(result.error().code, Errc::malformed);
        } else {
          EXPECT_EQ(encode(*result, entries), hostile) << "two forms of the same positions";
        }
      }
    }
  }
}

TEST_P(IndexCodecs, SurvivesRandomBytes) {
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    const auto words = Philox(7).at(0, 0, i);
    Bytes bytes(words[0] % 24);
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      bytes[at] = static_cast<std::byte>(Philox(8).at(0, i, static_cast<std::uint32_t>(at))[0]);
    }
    if (!bytes.empty() && words[3] % 2 == 0) bytes[0] = static_cast<std::byte>(words[3] % 4 < 2 ? 12 : 16);
    const std::uint64_t entries = words[1] % 3 == 0 ? 0xFFFF'FFFF : words[1] % 20'000;
    const std::size_t count = words[2] % 20;
    const auto result = decode(bytes, entries, count);
    if (result) {
      EXPECT_EQ(encode(*result, entries), bytes);
    }
  }
}

double bits_each(const IndexCodec& codec, const Positions& positions, std::uint64_t entries) {
  return 8.0 * static_cast<double>(codec.bytes(positions, entries)) / static_cast<double>(positions.size());
}

TEST(IndexCodec, EachHasItsPlace) {
  constexpr std::uint32_t entries = 1 << 21;
  const Positions thousandth = random_positions(entries, 0.001, 9);  // entropy 11.41 bits
  EXPECT_LE(bits_each(rice_codec, thousandth, entries), 11.7);
  EXPECT_LE(bits_each(elias_fano_codec, thousandth, entries), 12.0);
  EXPECT_LE(bits_each(block_codec, thousandth, entries), 13.2);
  EXPECT_LE(bits_each(varint_codec, thousandth, entries), 16.0);
  const Positions hundredth = random_positions(entries, 0.01, 9);  // entropy 8.08 bits
  EXPECT_LE(bits_each(rice_codec, hundredth, entries), 8.2);
  EXPECT_LE(bits_each(varint_codec, hundredth, entries), 10.3);
  const Positions half = random_positions(entries, 0.5, 9);
  EXPECT_LE(bits_each(bitmap_codec, half, entries), 2.01);
  EXPECT_GE(bits_each(elias_fano_codec, half, entries), 2.9);
  Positions evenly;  // 64 in each 4096, as SparseLoCo
  for (std::uint32_t i = 0; i < entries; i += 64) evenly.push_back(i);
  EXPECT_EQ(block_codec.bytes(evenly, entries), 3 + evenly.size() * 12 / 8);
  Positions runs;
  for (std::uint32_t i = 0; i < entries; i += i % 200'000 == 99 ? 199'901 : 1) runs.push_back(i);
  EXPECT_EQ(&choose_index_codec("auto", runs, entries), &varint_codec);
}

TEST(IndexCodec, PlainFormsOfEachOnTheWire) {
  const Positions positions = {1, 3, 9};
  const auto bytes_of = [&](const IndexCodec& codec) {
    Bytes out(codec.bytes(positions, 17));
    codec.encode(positions, 17, out);
    std::vector<unsigned> numbers;
    for (const std::byte byte : out) numbers.push_back(std::to_integer<unsigned>(byte));
    return numbers;
  };
  using Numbers = std::vector<unsigned>;
  EXPECT_EQ(bytes_of(varint_codec), (Numbers{1, 1, 5}));
  // 14 others among 3: two low bits; 1, 1 and 5 are 01, 01, 01 and, in unary, 1, 1, 01
  EXPECT_EQ(bytes_of(rice_codec), (Numbers{0b010101, 0b1011}));
  EXPECT_EQ(bytes_of(bitmap_codec), (Numbers{0b1010, 0b10, 0}));
  // offsets of 12 bits, the least count 3, no bits for counts above; 0x001, 0x003, 0x009
  EXPECT_EQ(bytes_of(block_codec), (Numbers{12, 3, 0, 0x01, 0x30, 0x00, 0x09, 0x00}));
}

TEST(IndexCodec, TwelveBitsAPositionAtOneInAThousand) {
  constexpr std::uint32_t entries = 1 << 21;
  const Positions positions = random_positions(entries, 0.001, 9);
  const std::size_t bytes = choose_index_codec("auto", positions, entries).bytes(positions, entries);
  EXPECT_LE(8.0 * static_cast<double>(bytes) / static_cast<double>(positions.size()), 12.0);
}

TEST(IndexCodec, AutoIsTheShortest) {
  for (const auto& [positions, entries] :
       {std::pair<Positions, std::uint64_t>{{}, 10}, {{5}, 0xFFFF'FFFF}, {random_positions(5'000, 0.5, 1), 5'000}}) {
    const std::size_t chosen = choose_index_codec("auto", positions, entries).bytes(positions, entries);
    for (const IndexCodec* codec : index_codecs()) EXPECT_LE(chosen, codec->bytes(positions, entries));
  }
}

TEST(IndexCodec, IdsAreDistinctAndUnknownOnesRefused) {
  for (const IndexCodec* codec : index_codecs()) EXPECT_EQ(index_codec(codec->id).value(), codec);
  EXPECT_EQ(index_codec(15).error().code, Errc::unsupported);
}

}  // namespace
}  // namespace weir::compressors::test
