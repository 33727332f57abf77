#include "compressors/codecs/payload.hpp"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include "base/errc.hpp"
#include "compressors/codecs/counts.hpp"
#include "compressors/codecs/varint.hpp"
#include "support.hpp"

namespace weir::compressors::test {
namespace {

Bytes bytes(std::initializer_list<unsigned> values) {
  Bytes out;
  for (const unsigned value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

Bytes payload_of(BytesView body) {
  Bytes out;
  PayloadWriter writer(out, Format::sparse, body.size());
  std::ranges::copy(body, writer.body().begin());
  writer.seal();
  return out;
}

TEST(Payload, OpensWhatWasWritten) {
  for (const std::size_t size : {0, 1, 127, 128, 20'000}) {
    const Bytes body(size, std::byte{0x5A});
    const Bytes payload = payload_of(body);
    EXPECT_LE(payload.size(), size + payload_header_bytes_max);
    EXPECT_TRUE(std::ranges::equal(open_payload(payload, Format::sparse).value(), body));
  }
}

TEST(Payload, HasThisLayoutOnTheWire) {
  EXPECT_EQ(payload_of(bytes({1, 2, 3})), bytes({0xA1, 1, 3, 0xBA, 0x67, 0x08, 0x2E, 1, 2, 3}));
}

TEST(Payload, ChecksumOfALongBodyIsThatOfItsPieces) {
  Bytes body(2 * checksum_piece + 5);
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<std::byte>(i * 31 >> 3);
  Bytes payload = payload_of(body);
  const std::size_t checksum_at = payload.size() - body.size() - 4;

  std::array<XXH64_hash_t, 3> pieces = {XXH3_64bits(body.data(), checksum_piece),
                                        XXH3_64bits(body.data() + checksum_piece, checksum_piece),
                                        XXH3_64bits(body.data() + 2 * checksum_piece, 5)};
  const XXH64_hash_t seed = XXH3_64bits(payload.data(), checksum_at);
  EXPECT_EQ(load_u32(payload.data() + checksum_at),
            static_cast<std::uint32_t>(XXH3_64bits_withSeed(pieces.data(), sizeof pieces, seed)));

  // In any order, and each piece counts.
  std::vector<std::size_t> visited;
  const PartLoop backwards = [&](std::size_t count, FunctionRef<void(std::size_t)> part) {
    for (std::size_t i = count; i-- > 0;) part(visited.emplace_back(i));
  };
  EXPECT_TRUE(open_payload(payload, Format::sparse, backwards).has_value());
  EXPECT_EQ(visited, (std::vector<std::size_t>{2, 1, 0}));
  for (const std::size_t at : {std::size_t{0}, checksum_piece, body.size() - 1}) {
    payload[checksum_at + 4 + at] ^= std::byte{1};
    EXPECT_EQ(open_payload(payload, Format::sparse).error().code, Errc::malformed) << at;
    payload[checksum_at + 4 + at] ^= std::byte{1};
  }
}

TEST(Payload, AnotherVersionIsUnsupported) {
  Bytes payload = payload_of(bytes({1, 2, 3}));
  payload[0] = std::byte{0xA2};
  EXPECT_EQ(open_payload(payload, Format::sparse).error().code, Errc::unsupported);
  BytesView stream = payload;
  EXPECT_EQ(take_payload(stream).error().code, Errc::unsupported);
  payload[0] = std::byte{0xB1};
  EXPECT_EQ(open_payload(payload, Format::sparse).error().code, Errc::malformed);
}

TEST(Payload, AnotherFormatIsUnsupported) {
  EXPECT_EQ(open_payload(payload_of(bytes({1})), static_cast<Format>(200)).error().code, Errc::unsupported);
}

TEST(Payload, TakesOneAfterTheOther) {
  Bytes stream = payload_of(bytes({1, 2, 3}));
  const Bytes second = payload_of(bytes({}));
  stream.insert(stream.end(), second.begin(), second.end());
  EXPECT_EQ(open_payload(stream, Format::sparse).error().code, Errc::malformed) << "something follows";
  BytesView rest = stream;
  EXPECT_EQ(take_payload(rest).value().size(), stream.size() - second.size());
  EXPECT_TRUE(std::ranges::equal(take_payload(rest).value(), second));
  EXPECT_EQ(take_payload(rest).error().code, Errc::malformed) << "nothing is left";
}

TEST(Payload, DoesNotReadBehindTheEnd) {
  const Bytes payload = payload_of(bytes({1, 2, 3}));
  for (std::size_t size = 0; size < payload.size(); ++size) {
    const Bytes cut(payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(open_payload(cut, Format::sparse).error().code, Errc::malformed);
    BytesView stream = cut;
    EXPECT_EQ(take_payload(stream).error().code, Errc::malformed);
    EXPECT_EQ(stream.size(), size);
  }
  const Bytes huge = bytes({0xA1, 1, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0, 0, 0, 0, 1});
  EXPECT_EQ(open_payload(huge, Format::sparse).error().code, Errc::malformed);
}

TEST(Varint, RoundTripsAndRefusesOtherForms) {
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{127}, std::uint64_t{128},
                                    std::uint64_t{16'383}, std::uint64_t{16'384}, std::uint64_t{1} << 32, varint_max}) {
    Bytes out;
    append_varint(out, value);
    EXPECT_EQ(out.size(), varint_bytes(value));
    BytesView in = out;
    EXPECT_EQ(read_varint(in), value);
    EXPECT_TRUE(in.empty());
    BytesView cut = BytesView(out).first(out.size() - 1);
    EXPECT_EQ(read_varint(cut), std::nullopt);
  }
  for (const Bytes& wrong :
       {bytes({0x80, 0x00}), bytes({0xFF, 0xFF, 0xFF, 0xFF, 0xFF}), bytes({0x80, 0x80, 0x80, 0x80, 0x80, 0x01})}) {
    BytesView in = wrong;
    EXPECT_EQ(read_varint(in), std::nullopt);
  }
}

TEST(Counts, AreReadAsTheyWereWritten) {
  for (const auto& counts : {std::vector<std::uint64_t>{}, {0}, {300, 0, varint_max}}) {
    Bytes out;
    write_counts(counts, out);
    std::vector<std::uint64_t> read(counts.size());
    ASSERT_TRUE(read_counts(out, read));
    EXPECT_EQ(read, counts);
    read.push_back(0);
    EXPECT_EQ(read_counts(out, read).error().code, Errc::malformed) << "one is missing";
    if (counts.empty()) continue;
    read.resize(counts.size() - 1);
    EXPECT_EQ(read_counts(out, read).error().code, Errc::malformed) << "one too many";
  }
  Bytes out;
  write_counts(std::vector<std::uint64_t>{~std::uint64_t{0}}, out);
  std::vector<std::uint64_t> read(1);
  ASSERT_TRUE(read_counts(out, read));
  EXPECT_EQ(read[0], varint_max) << "the largest there is";
  EXPECT_EQ(read_counts(payload_of(bytes({1})), read).error().code, Errc::unsupported) << "of another format";
}

}  // namespace
}  // namespace weir::compressors::test
