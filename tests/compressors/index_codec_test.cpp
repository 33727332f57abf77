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
    EXPECT_EQ(decode(encode(positions, entries), entries, positions.size()).value(), positions) << entries;
  }
  for (const double share : {0.001, 0.02, 0.3, 0.9}) {
    const Positions positions = random_positions(30'011, share, 5);
    EXPECT_EQ(decode(encode(positions, 30'011), 30'011, positions.size()).value(), positions) << share;
  }
}

TEST_P(IndexCodecs, AcceptsOnlyWhatEncodeWrites) {
  constexpr std::uint64_t entries = 60;
  const Positions positions = {3, 4, 17, 40, 59};
  const Bytes good = encode(positions, entries);
  EXPECT_FALSE(decode(good, entries, positions.size() + 1));
  EXPECT_FALSE(decode(good, entries, positions.size() - 1));
  EXPECT_FALSE(decode(good, 59, positions.size()));
  EXPECT_FALSE(decode(good, entries, 61));
  for (std::size_t at = 0; at < good.size(); ++at) {
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
