#include "compressors/sketches/sketchml.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/errc.hpp"
#include "compressors/codecs/payload.hpp"
#include "compressors/codecs/varint.hpp"
#include "compressors/sketches/delta_keys.hpp"
#include "compressors/sketches/min_max_sketch.hpp"
#include "support.hpp"

namespace weir::compressors::test {
namespace {

using ::testing::ElementsAre;

Bytes written(const std::vector<std::uint32_t>& keys) {
  Bytes out;
  append_delta_keys(keys, DeltaCode::shortest(keys), out);
  return out;
}

TEST(DeltaKeys, ComeBack) {
  for (const std::uint32_t gap : {1U, 2U, 3U, 17U, 300U, 70'000U, 20'000'000U}) {
    std::vector<std::uint32_t> keys;
    for (std::uint64_t key = gap / 2; key < 0xFFFFFFFF && keys.size() < 1000; key += 1 + mix64(keys.size()) % gap) {
      keys.push_back(static_cast<std::uint32_t>(key));
    }
    const DeltaCode code = DeltaCode::shortest(keys);
    const Bytes bytes = written(keys);
    EXPECT_EQ(bytes.size(), code.bytes);
    std::vector<std::uint32_t> back(keys.size());
    ASSERT_TRUE(read_delta_keys(bytes, code.id, std::uint64_t{keys.back()} + 1, back)) << gap;
    EXPECT_EQ(back, keys);
    EXPECT_FALSE(read_delta_keys(bytes, code.id, keys.back(), back)) << "a key outside";
    EXPECT_FALSE(read_delta_keys(BytesView(bytes).first(bytes.size() - 1), code.id, keys.back() + 1ULL, back));
  }
}

// Gaps of all lengths: 16 units in unary for the short, so that 3 bits are spent on the next key at least.
TEST(DeltaKeys, TakeTheLengthThatTheRulesGive) {
  std::vector<std::uint32_t> dense(800);
  for (std::uint32_t i = 0; i < dense.size(); ++i) dense[i] = i;
  EXPECT_EQ(DeltaCode::shortest(dense).bytes, 300) << "unit of 2 bits and flag of one for each";
  // The delta-binary case: numbers of one to four bytes, a flag of two bits.
  const std::vector<std::uint32_t> sizes = {200, 1U << 15, 1U << 23, 1U << 31};
  std::vector<std::uint32_t> wide;
  std::uint32_t key = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) wide.push_back(key += sizes[i]);
  const std::size_t binary = (8 + 16 + 24 + 32 + 4 * 2 + 7) / 8;
  EXPECT_LE(DeltaCode::shortest(wide).bytes, binary);
}

TEST(DeltaKeys, OneCodeForOneListOfKeys) {
  // The number 1 in two units of 8 bits (m = 4, fixed flag 1) where one is enough.
  const Bytes longer = {std::byte{0x05}, std::byte{0x00}, std::byte{0x00}};
  std::vector<std::uint32_t> key(1);
  EXPECT_EQ(read_delta_keys(longer, 1, 100, key).error().code, Errc::malformed);
  const Bytes shorter = {std::byte{0x04}, std::byte{0x00}};
  ASSERT_TRUE(read_delta_keys(shorter, 1, 100, key));
  EXPECT_THAT(key, ElementsAre(1));
  EXPECT_FALSE(read_delta_keys(Bytes{std::byte{0x04}, std::byte{0x80}}, 1, 100, key)) << "bits behind the last key";
  EXPECT_FALSE(read_delta_keys(shorter, 8, 100, key)) << "no such code";
}

std::map<std::uint32_t, std::uint8_t> some_keys(std::uint64_t seed, std::size_t count, std::uint8_t bins) {
  std::map<std::uint32_t, std::uint8_t> keys;
  for (std::uint64_t i = 0; keys.size() < count; ++i) {
    const std::uint64_t word = mix64(seed << 32 | i);
    keys[static_cast<std::uint32_t>(word)] = static_cast<std::uint8_t>(word >> 40) % bins;
  }
  return keys;
}

TEST(MinMaxSketch, NeverTellsAHigherBinAndMostlyTheRightOne) {
  MinMaxSketch crowded(2, 300, 31);
  MinMaxSketch roomy(2, 20'000, 31);
  const auto keys = some_keys(1, 1000, 32);
  for (const auto& [key, bin] : keys) {
    crowded.insert(key, bin);
    roomy.insert(key, bin);
  }
  std::size_t lower = 0;
  std::size_t exact = 0;
  for (const auto& [key, bin] : keys) {
    EXPECT_LE(crowded.query(key), bin);
    EXPECT_LE(roomy.query(key), bin);
    lower += crowded.query(key) < bin;
    exact += roomy.query(key) == bin;
  }
  EXPECT_GT(lower, 300) << "in a third of the columns there are collisions";
  EXPECT_GT(exact, 980) << "both rows have to collide: 1000 * (1000 / 20000)^2 at most on average";
}

TEST(MinMaxSketch, MergedIsTheSketchOfAllKeys) {
  const auto left = some_keys(1, 500, 16);
  const auto right = some_keys(2, 700, 16);
  MinMaxSketch a(3, 200, 15);
  MinMaxSketch b(3, 200, 15);
  MinMaxSketch both(3, 200, 15);
  for (const auto& [key, bin] : left) a.insert(key, bin), both.insert(key, bin);
  for (const auto& [key, bin] : right) b.insert(key, bin), both.insert(key, bin);
  a.merge(b);
  EXPECT_TRUE(std::ranges::equal(a.cells(), both.cells()));
}

std::unique_ptr<Compressor> sketchml(const nlohmann::json& params = nullptr) {
  return builtin().make_compressor("sketchml", params).value();
}

/// The k largest magnitudes, by sorting.
std::set<std::uint32_t> largest(const at::Tensor& x, std::size_t k) {
  std::vector<std::uint32_t> order(static_cast<std::size_t>(x.numel()));
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  const float* values = x.data_ptr<float>();
  std::ranges::stable_sort(
      order, [&](std::uint32_t a, std::uint32_t b) { return std::fabs(values[a]) > std::fabs(values[b]); });
  return {order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k)};
}

TEST(SketchMl, SendsTheLargestAndOnlyShrinksThem) {
  const at::Tensor x = heavy_tailed(30'000, 5);
  for (const double ratio : {0.01, 0.1, 1.0}) {
    const auto compressor = sketchml({{"ratio", ratio}});
    const Bytes payload = encoded(*compressor, x, round_at(1));
    const auto positions = positions_in(*compressor, payload, round_at(1), 30'000).value();
    const auto kept = static_cast<std::size_t>(std::ceil(ratio * 30'000));
    EXPECT_TRUE(std::ranges::equal(positions, largest(x, kept))) << ratio;
    const at::Tensor y = decoded(*compressor, payload, x, round_at(1));
    for (const std::uint32_t i : positions) {
      const float before = x.data_ptr<float>()[i];
      const float after = y.data_ptr<float>()[i];
      ASSERT_GT(before * after, 0) << "the sign of entry " << i;
      ASSERT_LE(std::fabs(after), std::fabs(before)) << "entry " << i;
    }
    EXPECT_EQ(y.max().item<float>(), x.max().item<float>());
    EXPECT_EQ(y.min().item<float>(), x.min().item<float>());
  }
}

// With sketches so wide that two rows hardly ever collide, what is left is the error of the quantiles: each value is
// one of 256, the least of a run of about equally many.
TEST(SketchMl, ValuesAreTheLeastOfQuantileBuckets) {
  const at::Tensor x = gaussian(20'000, 6);
  const auto compressor = sketchml({{"ratio", 1.0}, {"columns", 8.0}, {"rows", 8}});
  const at::Tensor y = decoded(*compressor, encoded(*compressor, x, round_at(1)), x, round_at(1));
  std::map<float, std::vector<float>> buckets;
  for (std::int64_t i = 0; i < x.numel(); ++i) buckets[y.data_ptr<float>()[i]].push_back(x.data_ptr<float>()[i]);
  EXPECT_GT(buckets.size(), 250);
  EXPECT_LE(buckets.size(), 258);
  std::size_t most = 0;
  for (const auto& [value, entries] : buckets) {
    most = std::max(most, entries.size());
    for (const float entry : entries) EXPECT_GE(std::fabs(entry), std::fabs(value));
    EXPECT_TRUE(std::ranges::find(entries, value) != entries.end()) << "a value of one of its entries: " << value;
  }
  EXPECT_LT(most, 2 * 20'000 / 256);
  EXPECT_LT(squared_norm(x - y), 0.01 * squared_norm(x));
}

TEST(SketchMl, IsShorterThanTheEntriesItSends) {
  const at::Tensor x = gaussian(400'000, 7);
  const Bytes payload = encoded(*sketchml(), x, round_at(1));
  EXPECT_LT(payload.size(), 4'000 * 5 / 2) << "two and a half bytes an entry";
}

/// Parameters whose payloads are long in one way or another.
const std::vector<nlohmann::json> long_ones = {nlohmann::json::object(),
                                               {{"ratio", 1.0}},
                                               {{"ratio", 1.0}, {"rows", 8}, {"columns", 8.0}},
                                               {{"ratio", 0.1}, {"rows", 8}, {"columns", 8.0}},
                                               {{"ratio", 0.05}, {"rows", 8}, {"columns", 8.0}, {"groups", 1}},
                                               {{"ratio", 1.0}, {"rows", 2}, {"columns", 2.5}, {"groups", 3}},
                                               {{"ratio", 1.0}, {"groups", 64}, {"columns", 0.001}},
                                               {{"ratio", 1.0}, {"buckets", 2}, {"groups", 64}},
                                               {{"ratio", 0.3}, {"buckets", 100}, {"groups", 3}, {"rows", 4}}};

void expect_short_or_dense(Compressor& compressor, const at::Tensor& x) {
  const auto bytes = encoded(compressor, x, round_at(1)).size();
  const auto entries = static_cast<std::size_t>(x.numel());
  Round round = round_at(1);
  for (round.world = 1; round.world <= 2; ++round.world) {
    if (compressor.goes_dense(x.sizes(), round)) continue;
    EXPECT_LE(bytes, 8 / round.world * entries + payload_header_bytes_max) << x.sizes() << " of " << round.world;
  }
  round.by_owners = true;
  const bool dense = compressor.goes_dense(x.sizes(), round);
  EXPECT_TRUE(dense || bytes <= 4 * entries + payload_header_bytes_max) << x.sizes() << " by owners: " << bytes;
}

TEST(SketchMl, IsNoLongerThanTheTensorWhereItDoesNotGoDense) {
  for (const auto& params : long_ones) {
    SCOPED_TRACE(params.dump());
    const auto compressor = sketchml(params);
    for (const auto& [rows, columns] : {std::pair{1, 1}, {3, 1}, {2, 3}, {9, 4}, {64, 64}, {300, 100}}) {
      const at::Tensor x = gaussian(rows * columns, 9).reshape({rows, columns});
      expect_short_or_dense(*compressor, x);
      expect_short_or_dense(*compressor, x.abs());
      expect_short_or_dense(*compressor, x.pow(5));
      expect_short_or_dense(*compressor, x.sign());
      expect_short_or_dense(*compressor, x + 3);
    }
  }
}

TEST(SketchMl, GoesDenseWithSketchesThatAreLongerThanTheTensor) {
  Round round = round_at(1);
  const auto wide = sketchml({{"ratio", 1.0}, {"rows", 8}, {"columns", 8.0}});
  EXPECT_TRUE(wide->goes_dense({256, 256}, round)) << "for one rank, too";
  EXPECT_TRUE(wide->goes_dense({65'536}, round));
  const auto all = sketchml({{"ratio", 1.0}});
  const auto few = sketchml({{"rows", 8}, {"columns", 8.0}});
  for (round.world = 1; round.world <= 1000; ++round.world) {
    EXPECT_FALSE(all->goes_dense({256, 256}, round)) << round.world;
    EXPECT_FALSE(few->goes_dense({256, 256}, round)) << round.world;
  }
}

/// A body with one group of positive buckets, to be spoilt.
struct Hostile {
  std::uint64_t entries = 100;
  std::uint8_t rows = 1;
  std::uint64_t groups = 1;
  std::vector<float> values = {1, 2};
  std::vector<std::uint32_t> keys = {3, 50};
  std::uint64_t columns = 4;
  std::uint8_t cells = 0b0110;
  bool twice = false;

  Bytes sealed() const {
    Bytes body;
    append_varint(body, entries);
    body.push_back(std::byte{rows});
    append_varint(body, groups);
    for (int i = 0; i < (twice ? 2 : 1); ++i) {
      append_varint(body, values.size());
      const auto bytes = std::as_bytes(std::span(values));
      body.insert(body.end(), bytes.begin(), bytes.end());
      append_varint(body, keys.size());
      const DeltaCode code = DeltaCode::shortest(keys);
      body.push_back(std::byte{code.id});
      append_varint(body, code.bytes);
      append_delta_keys(keys, code, body);
      if (values.size() < 2) continue;
      append_varint(body, columns);
      body.push_back(std::byte{cells});
    }
    Bytes out;
    PayloadWriter writer(out, Format::quantile, body.size());
    std::ranges::copy(body, writer.body().begin());
    writer.seal();
    return out;
  }
  bool accepted() const {
    at::Tensor sum = at::zeros({100});
    const auto done = sketchml()->decode_add(sealed(), round_at(1), 1, sum);
    EXPECT_TRUE(done || done.error().code == Errc::malformed);
    return done.has_value();
  }
};

TEST(SketchMl, RefusesWhatNoEncoderWrites) {
  const float largest = std::numeric_limits<float>::max();
  EXPECT_TRUE(Hostile{}.accepted());
  EXPECT_TRUE((Hostile{.values = {-2}}.accepted()));
  EXPECT_FALSE((Hostile{.entries = 101}.accepted()));
  EXPECT_FALSE((Hostile{.rows = 0}.accepted()));
  EXPECT_FALSE((Hostile{.rows = 9}.accepted()));
  EXPECT_FALSE((Hostile{.groups = 2}.accepted()));
  EXPECT_FALSE((Hostile{.groups = 0}.accepted())) << "bytes behind the last group";
  EXPECT_FALSE((Hostile{.values = {2, 1}}.accepted()));
  EXPECT_FALSE((Hostile{.values = {-1, 2}}.accepted())) << "a group of both signs";
  EXPECT_FALSE((Hostile{.values = {0, 2}}.accepted()));
  EXPECT_FALSE((Hostile{.values = {1, INFINITY}}.accepted()));
  EXPECT_FALSE((Hostile{.values = {1, NAN}}.accepted()));
  EXPECT_FALSE((Hostile{.values = {}}.accepted()));
  EXPECT_FALSE((Hostile{.keys = {3, 100}}.accepted()));
  EXPECT_FALSE((Hostile{.keys = {}}.accepted()));
  EXPECT_FALSE((Hostile{.columns = 0}.accepted()));
  EXPECT_FALSE((Hostile{.columns = 0x7FFFFFFFF}.accepted()));
  EXPECT_FALSE((Hostile{.cells = 0x16}.accepted())) << "bits behind the last cell";
  EXPECT_FALSE((Hostile{.values = {1, 2, 4}, .columns = 4, .cells = 0xFF}.accepted())) << "a bucket that is not there";
  // Two groups for one entry would add up, here to more than a float holds.
  EXPECT_FALSE((Hostile{.groups = 2, .values = {largest}, .twice = true}.accepted()));
}

}  // namespace
}  // namespace weir::compressors::test
