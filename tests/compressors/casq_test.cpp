#include "compressors/sketches/casq.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/errc.hpp"
#include "compressors/codecs/payload.hpp"
#include "compressors/codecs/varint.hpp"
#include "compressors/kernels/pack.hpp"
#include "compressors/kernels/sketching/clusters.hpp"
#include "support.hpp"

namespace weir::compressors::test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;

std::unique_ptr<Compressor> casq(const nlohmann::json& params = nullptr) {
  return builtin().make_compressor("casq", params).value();
}

std::span<const float> floats_of(const at::Tensor& x) {
  return {x.data_ptr<float>(), static_cast<std::size_t>(x.numel())};
}

/// What a payload says, read once more from the description of its bytes, and the bucket of each entry.
struct Parsed {
  unsigned bits = 0;
  std::uint32_t salt = 0;
  std::vector<std::uint64_t> sizes;
  std::vector<float> means;
  std::vector<unsigned> ids;
  std::vector<std::size_t> buckets;

  explicit Parsed(BytesView payload) {
    BytesView body = open_payload(payload, Format::clusters).value();
    EXPECT_EQ(body[0], std::byte{1});
    body = body.subspan(1);
    const std::uint64_t entries = read_varint(body).value();
    bits = std::to_integer<unsigned>(body[0]);
    salt = load_u32(body.data() + 1);
    body = body.subspan(5);
    std::uint64_t all = 0;
    std::vector<std::uint64_t> begins;
    for (unsigned c = 0; c < 1U << bits; ++c) {
      sizes.push_back(read_varint(body).value());
      begins.push_back(all);
      all += sizes.back();
    }
    means.resize(all);
    std::memcpy(means.data(), body.data(), all * 4);
    body = body.subspan(all * 4);
    for (std::uint64_t i = 0; i < entries; ++i) {
      unsigned id = 0;
      for (unsigned bit = 0; bit < bits; ++bit) {
        const std::uint64_t at = i * bits + bit;
        id |= (std::to_integer<unsigned>(body[at / 8]) >> at % 8 & 1) << bit;
      }
      ids.push_back(id);
      std::uint64_t hash = i ^ salt;
      hash = (hash ^ hash >> 16) * 0x85EBCA6B % (1ULL << 32);
      hash = (hash ^ hash >> 13) * 0xC2B2AE35 % (1ULL << 32);
      hash ^= hash >> 16;
      const std::uint64_t segment = segment_of(i, entries);
      const std::uint64_t begin = sizes[id] * segment / segments(entries);
      const std::uint64_t end = sizes[id] * (segment + 1) / segments(entries);
      buckets.push_back(begins[id] + begin + hash * (end - begin) / (1ULL << 32));
    }
  }

  // A segment has the same number of blocks of 256 entries as the others, or one more, and fewer than 2^18 entries.
  static std::uint64_t blocks(std::uint64_t entries) { return (entries + 255) / 256; }
  static std::uint64_t segments(std::uint64_t entries) { return blocks(entries) / 1024 + 1; }
  static std::uint64_t segment_of(std::uint64_t i, std::uint64_t entries) {
    std::uint64_t segment = 0;
    while (i / 256 >= blocks(entries) * (segment + 1) / segments(entries)) ++segment;
    return segment;
  }
};

/// The tables as plain sums.
struct Plain {
  std::vector<double> sums;
  std::vector<double> counts;

  Plain(const Parsed& parsed, const at::Tensor& x) : sums(parsed.means.size()), counts(parsed.means.size()) {
    for (std::size_t i = 0; i < parsed.buckets.size(); ++i) {
      sums[parsed.buckets[i]] += floats_of(x)[i];
      ++counts[parsed.buckets[i]];
    }
  }
  float mean(std::size_t bucket) const {
    return counts[bucket] == 0 ? 0 : static_cast<float>(sums[bucket] / counts[bucket]);
  }
};

TEST(Casq, EntriesBecomeTheMeanOfTheirBucket) {
  for (const auto& [entries, bits] : {std::pair{50'003, 1}, {50'003, 2}, {600'001, 2}, {50'003, 3}, {300'000, 4}}) {
    const at::Tensor x = heavy_tailed(entries, 1);
    const auto compressor = casq({{"bits", bits}});
    const Bytes payload = encoded(*compressor, x, round_at(2));
    const Parsed parsed(payload);
    EXPECT_EQ(parsed.bits, bits);
    const Plain plain(parsed, x);
    for (std::size_t i = 0; i < parsed.means.size(); ++i) ASSERT_EQ(parsed.means[i], plain.mean(i)) << bits;
    const at::Tensor y = decoded(*compressor, payload, x, round_at(2));
    for (std::size_t i = 0; i < parsed.buckets.size(); ++i) {
      ASSERT_EQ(floats_of(y)[i], parsed.means[parsed.buckets[i]]) << bits;
    }
  }
}

TEST(Casq, ClustersAreOfOneSignAndInTheOrderOfMagnitudes) {
  const at::Tensor x = gaussian(40'000, 2) * 1e-3F;
  const Parsed parsed(encoded(*casq({{"bits", 3}}), x, round_at(2)));
  std::array<float, 8> least;
  std::array<float, 8> most{};
  std::array<int, 8> count{};
  least.fill(INFINITY);
  for (std::size_t i = 0; i < parsed.ids.size(); ++i) {
    const float value = floats_of(x)[i];
    const unsigned id = parsed.ids[i];
    EXPECT_EQ(value < 0, id >= 4);
    least[id] = std::min(least[id], std::fabs(value));
    most[id] = std::max(most[id], std::fabs(value));
    ++count[id];
  }
  for (const unsigned id : {0, 1, 2, 4, 5, 6}) EXPECT_LT(most[id], least[id + 1]);
  for (const unsigned tail : {3, 7}) {
    EXPECT_GT(count[tail], 0.05 * 20'000) << "what is nearer to the 95th percentile";
    EXPECT_LT(count[tail], 0.2 * 20'000);
  }
}

TEST(Casq, TablesTakeTheBudget) {
  const Parsed parsed(encoded(*casq({{"budget", 0.02}}), gaussian(100'000, 3), round_at(2)));
  EXPECT_LE(parsed.means.size(), 2000 + 4 * cluster_buckets_min);
  EXPECT_GE(parsed.means.size(), 1990);
  EXPECT_THAT(parsed.sizes, Each(Ge(cluster_buckets_min)));
  const Parsed small(encoded(*casq({{"budget", 1e-9}}), gaussian(2'000, 3), round_at(2)));
  EXPECT_THAT(small.sizes, ElementsAre(10, 10, 10, 10));
  const Parsed segments(encoded(*casq({{"budget", 1e-9}}), gaussian(600'000, 3), round_at(2)));
  EXPECT_THAT(segments.sizes, ElementsAre(30, 30, 30, 30));
  EXPECT_THAT(Parsed(encoded(*casq(), at::zeros({600'000}), round_at(2))).sizes, ElementsAre(30, 30, 30, 30));
}

TEST(Casq, SaltsDifferFromRoundToRoundAndNotFromRankToRank) {
  const at::Tensor x = gaussian(2'000, 4);
  Round other_rank = round_at(2);
  other_rank.rank = 5;
  EXPECT_EQ(Parsed(encoded(*casq(), x, round_at(2))).salt, Parsed(encoded(*casq(), x, other_rank)).salt);
  EXPECT_NE(Parsed(encoded(*casq(), x, round_at(2))).salt, Parsed(encoded(*casq(), x, round_at(3))).salt);
}

// The quality that the method is for: the authors' log has a relative error of 0.66 at two bits on their gradients.
TEST(Casq, KeepsMostOfTheNorm) {
  const at::Tensor x = gaussian(200'000, 5);
  std::vector<double> errors;
  for (const int bits : {1, 2, 3, 4}) {
    const auto compressor = casq({{"bits", bits}});
    errors.push_back(squared_norm(x - decoded(*compressor, encoded(*compressor, x, round_at(1)), x, round_at(1))) /
                     squared_norm(x));
  }
  EXPECT_LT(errors[0], 1 - 2 / 3.1416 + 0.01) << "the mean of each sign";
  EXPECT_LT(errors[1], 0.2);
  EXPECT_LT(errors[2], 0.08);
  EXPECT_LT(errors[3], 0.03);
}

TEST(Casq, SmallTensorsAreSentAsTheyAre) {
  const auto compressor = casq();
  const at::Tensor small = gaussian(1'000, 6);
  EXPECT_TRUE(same_bits(small, decoded(*compressor, encoded(*compressor, small, round_at(1)), small, round_at(1))));
  EXPECT_EQ(compressor->error_bound(1'000, round_at(1)), 0);
  const at::Tensor larger = gaussian(1'001, 6);
  EXPECT_LT(encoded(*compressor, larger, round_at(1)).size(), 500);
  EXPECT_GT(compressor->error_bound(1'001, round_at(1)), 0.99);
}

using Ranks = std::vector<std::unique_ptr<Compressor>>;

Ranks ranks_of(std::size_t count, const nlohmann::json& params = nullptr) {
  Ranks ranks;
  for (std::size_t i = 0; i < count; ++i) ranks.push_back(casq(params));
  return ranks;
}

/// Both passes of some ranks: what they sent in each.
std::array<std::vector<Bytes>, 2> run(Ranks& ranks, const std::vector<at::Tensor>& gradients, Round round) {
  std::array<std::vector<Bytes>, 2> payloads;
  round.world = static_cast<std::uint32_t>(ranks.size());
  for (round.pass = 0; round.pass < 2; ++round.pass) {
    payloads[round.pass].resize(ranks.size());
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      round.rank = static_cast<std::uint32_t>(i);
      ranks[i]->encode(gradients[i], round, payloads[round.pass][i]).value();
    }
    const std::vector<BytesView> results(payloads[round.pass].begin(), payloads[round.pass].end());
    for (const auto& rank : ranks) rank->absorb(results, round).value();
  }
  return payloads;
}

/// The last payloads of ranks that have seen nothing before.
std::vector<Bytes> exchanged(const std::vector<at::Tensor>& gradients, const Round& round) {
  Ranks ranks = ranks_of(gradients.size());
  return run(ranks, gradients, round)[1];
}

TEST(Casq, TablesOfAllRanksCanBeMerged) {
  const at::Tensor x = gaussian(30'000, 7);
  const at::Tensor y = heavy_tailed(30'000, 8) * 5;
  const std::vector<Bytes> payloads = exchanged({x, y}, round_at(4));
  const Parsed left(payloads[0]);
  const Parsed right(payloads[1]);
  ASSERT_EQ(left.sizes, right.sizes);
  ASSERT_EQ(left.salt, right.salt);
  // From what came over the wire: means, and how many entries each is of.
  ClusterTable merged(left.means.size());
  ClusterTable other(left.means.size());
  for (const std::size_t bucket : left.buckets) merged.add(bucket, left.means[bucket], 1);
  for (const std::size_t bucket : right.buckets) other.add(bucket, right.means[bucket], 1);
  merged.merge(other);
  const Plain plain_left(left, x);
  const Plain plain_right(right, y);
  for (std::size_t i = 0; i < merged.size(); ++i) {
    const double count = plain_left.counts[i] + plain_right.counts[i];
    ASSERT_EQ(merged.count(i), count);
    if (count == 0) continue;
    const double mean = (plain_left.sums[i] + plain_right.sums[i]) / count;
    ASSERT_NEAR(merged.mean(i), mean, 1e-6 * std::fabs(mean)) << i;
  }
}

/// Which ranks have sent clusters in a first pass: all the others' payloads are the shortest there are.
std::vector<std::size_t> proposers(const std::vector<Bytes>& first) {
  std::vector<std::size_t> found;
  for (std::size_t rank = 0; rank < first.size(); ++rank) {
    if (first[rank].size() > 7 + 1 + 3 + 1) found.push_back(rank);
  }
  return found;
}

TEST(Casq, OneRankTrainsEveryTenSteps) {
  Ranks ranks = ranks_of(3);
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t step = 0; step < 31; ++step) {
    const std::vector<at::Tensor> gradients = {gaussian(5'000, step), heavy_tailed(5'000, 50 + step),
                                               at::square(gaussian(5'000, 90 + step))};
    const auto payloads = run(ranks, gradients, round_at(step));
    const bool trains = step % 10 == 0;
    EXPECT_EQ(proposers(payloads[0]), trains ? std::vector{step / 10 % 3} : std::vector<std::size_t>()) << step;
    if (trains) sizes = Parsed(encoded(*casq(), gradients[step / 10 % 3], round_at(step))).sizes;
    for (const Bytes& payload : payloads[1]) EXPECT_EQ(Parsed(payload).sizes, sizes) << step;
  }
  Ranks others = ranks_of(2, {{"train_every", 1}});
  for (std::uint64_t step = 0; step < 5; ++step) {
    const auto first = run(others, {gaussian(5'000, step), gaussian(5'000, 9 + step)}, round_at(step, 1))[0];
    EXPECT_EQ(proposers(first), std::vector{(step + 1) % 2}) << "and tensors take different turns";
  }
}

TEST(Casq, ARankOfNothingButZerosPassesItsTurn) {
  Ranks ranks = ranks_of(2);
  const at::Tensor zeros = at::zeros({5'000});
  const at::Tensor x = gaussian(5'000, 9);
  const auto first = run(ranks, {zeros, x}, round_at(0));
  EXPECT_TRUE(proposers(first[0]).empty());
  EXPECT_THAT(Parsed(first[1][0]).means, Each(0));
  const auto second = run(ranks, {zeros, x}, round_at(1));
  EXPECT_EQ(proposers(second[0]), std::vector<std::size_t>{1});
  EXPECT_EQ(Parsed(second[1][0]).sizes, Parsed(exchanged({x}, round_at(1))[0]).sizes);
  const auto kept = run(ranks, {zeros, zeros}, round_at(10));
  EXPECT_TRUE(proposers(kept[0]).empty());
  EXPECT_EQ(Parsed(kept[1][0]).sizes, Parsed(second[1][0]).sizes) << "what there was is kept";
}

TEST(Casq, ClustersAreTrainedAnewForATensorOfAnotherSize) {
  Ranks ranks = ranks_of(1);
  run(ranks, {gaussian(5'000, 1)}, round_at(3));
  const auto payloads = run(ranks, {gaussian(6'000, 2)}, round_at(4));
  EXPECT_EQ(proposers(payloads[0]), std::vector<std::size_t>{0});
  EXPECT_EQ(Parsed(payloads[1][0]).sizes, Parsed(encoded(*casq(), gaussian(6'000, 2), round_at(4))).sizes);
}

TEST(Casq, RefusesClustersFromARankWhoseTurnItIsNot) {
  Ranks ranks = ranks_of(2);
  const at::Tensor x = gaussian(5'000, 9);
  Round round = round_at(0);
  std::vector<Bytes> payloads(2);
  ranks[0]->encode(x, round, payloads[0]).value();
  round.world = 2;
  round.rank = 1;
  ranks[1]->encode(x, round, payloads[1]).value();
  const auto absorb = [&](const std::vector<BytesView>& results) {
    const auto done = casq()->absorb(results, round);
    EXPECT_TRUE(done || done.error().code == Errc::malformed);
    EXPECT_TRUE(done || done.error().context.starts_with("casq: ")) << done.error().context;
    return done.has_value();
  };
  EXPECT_TRUE(absorb({payloads[0], payloads[1]}));
  EXPECT_FALSE(absorb({payloads[1], payloads[0]}));
  EXPECT_FALSE(absorb({payloads[0], payloads[0]}));
  EXPECT_FALSE(absorb({payloads[0]})) << "one is missing";
  Bytes other;
  ranks[1]->encode(gaussian(4'000, 9), round, other).value();
  EXPECT_FALSE(absorb({payloads[0], other})) << "of another size";
}

TEST(Casq, RefusesStateThatIsNotClusters) {
  const auto compressor = casq();
  encoded(*compressor, gaussian(2'000, 3), round_at(0, 7));
  const std::vector<NamedTensor> state = compressor->save();
  ASSERT_EQ(state.size(), 1);
  EXPECT_EQ(state[0].name, "clusters.7");
  EXPECT_TRUE(casq()->restore(state));
  const auto refused = [](const NamedTensor& saved) {
    return casq()->restore(std::vector{saved}).error().code == Errc::malformed;
  };
  EXPECT_TRUE(refused({"clusters.x", state[0].tensor}));
  EXPECT_TRUE(refused({"clusters.", state[0].tensor}));
  EXPECT_TRUE(refused({"clusters.7", at::zeros({4})}));
  EXPECT_TRUE(refused({"clusters.7", state[0].tensor.narrow(0, 0, 20)}));
  EXPECT_TRUE(refused({"clusters.7", at::zeros({0}, at::kByte)}));
}

/// Lloyd's iteration on the magnitudes themselves.
std::vector<double> plain_thresholds(std::vector<double> magnitudes, std::size_t clusters) {
  std::ranges::sort(magnitudes);
  const auto rest = static_cast<std::size_t>(0.95 * static_cast<double>(magnitudes.size()));
  std::vector<double> centers;
  for (std::size_t c = 0; c + 1 < clusters; ++c) {
    double sum = 0;
    const std::size_t begin = rest * c / (clusters - 1);
    const std::size_t end = rest * (c + 1) / (clusters - 1);
    for (std::size_t i = begin; i < end; ++i) sum += magnitudes[i];
    centers.push_back(sum / static_cast<double>(end - begin));
  }
  centers.push_back(magnitudes[rest]);
  for (int step = 0; step < 25; ++step) {
    std::vector<double> sums(clusters);
    std::vector<double> counts(clusters);
    for (std::size_t i = 0; i < rest; ++i) {
      std::size_t nearest = 0;
      for (std::size_t c = 1; c < clusters; ++c) {
        if (std::fabs(magnitudes[i] - centers[c]) < std::fabs(magnitudes[i] - centers[nearest])) nearest = c;
      }
      sums[nearest] += magnitudes[i];
      ++counts[nearest];
    }
    for (std::size_t c = 0; c + 1 < clusters; ++c) centers[c] = sums[c] / counts[c];
  }
  std::vector<double> thresholds;
  for (std::size_t c = 0; c + 1 < clusters; ++c) thresholds.push_back((centers[c] + centers[c + 1]) / 2);
  return thresholds;
}

TEST(TrainClusters, FollowsLloyd) {
  const at::Tensor x = gaussian(60'000, 10);
  std::vector<double> positive;
  for (const float value : floats_of(x)) {
    if (value > 0) positive.push_back(value);
  }
  for (const unsigned bits : {2U, 3U, 4U}) {
    Clusters clusters;
    ASSERT_TRUE(train_clusters(floats_of(x), 1, bits, 600, clusters));
    const std::vector<double> expected = plain_thresholds(positive, clusters.count() / 2);
    ASSERT_EQ(expected.size(), clusters.thresholds_per_sign());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(clusters.thresholds[i], expected[i], 0.02 * expected[i]) << bits << " bits, threshold " << i;
    }
  }
}

/// Entropy of five bins, times mean, times count, of the magnitudes in [least, below).
double plain_weight(const std::vector<double>& magnitudes, double least, double below) {
  std::vector<double> in;
  for (const double it : magnitudes) {
    if (it >= least && it < below) in.push_back(it);
  }
  const auto [low, high] = std::ranges::minmax(in);
  std::array<double, 5> bins{};
  double sum = 0;
  for (const double it : in) {
    ++bins[std::min<std::size_t>(4, static_cast<std::size_t>((it - low) / (high - low) * 5))];
    sum += it;
  }
  double entropy = 0;
  for (const double bin : bins) {
    const double p = bin / static_cast<double>(in.size());
    if (p > 0) entropy -= p * std::log2(p);
  }
  return entropy * sum;
}

TEST(TrainClusters, SharesBucketsByEntropyCenterAndDensity) {
  const at::Tensor x = gaussian(80'000, 11);
  Clusters clusters;
  ASSERT_TRUE(train_clusters(floats_of(x), 1, 2, 10'000, clusters));
  std::vector<double> asked;
  for (const float sign : {1.0F, -1.0F}) {
    std::vector<double> magnitudes;
    for (const float value : floats_of(x)) {
      if (value * sign > 0) magnitudes.push_back(value * sign);
    }
    const double cut = clusters.thresholds[sign > 0 ? 0 : 1];
    const double tail_mean = [&] {
      double sum = 0;
      double count = 0;
      for (const double it : magnitudes) sum += it >= cut ? it : 0, count += it >= cut;
      return sum / count;
    }();
    asked.push_back(plain_weight(magnitudes, 0, cut) / tail_mean);
    asked.push_back(3 * plain_weight(magnitudes, cut, INFINITY) / tail_mean);
  }
  const double all = asked[0] + asked[1] + asked[2] + asked[3];
  for (std::size_t c = 0; c < 4; ++c) EXPECT_NEAR(clusters.sizes[c], 10'000 * asked[c] / all, 500) << c;
}

TEST(TrainClusters, TakesWhatHasNoShape) {
  Clusters clusters;
  EXPECT_FALSE(train_clusters(floats_of(at::zeros({2'000})), 1, 3, 20, clusters));
  EXPECT_FALSE(train_clusters({}, 1, 4, 20, clusters));
  for (const float value : {1.0F, -1.0F, std::numeric_limits<float>::max(), std::numeric_limits<float>::denorm_min()}) {
    for (unsigned bits = 1; bits <= cluster_bits_max; ++bits) {
      ASSERT_TRUE(train_clusters(floats_of(at::full({2'000}, value)), 1, bits, 500, clusters));
      const auto each = static_cast<std::ptrdiff_t>(clusters.thresholds_per_sign());
      for (const auto begin : {clusters.thresholds.begin(), clusters.thresholds.begin() + each}) {
        EXPECT_TRUE(std::is_sorted(begin, begin + each));
        EXPECT_TRUE(std::all_of(begin, begin + each, [](float it) { return it >= 0 && std::isfinite(it); }));
      }
    }
  }
}

/// The body of a payload for a tensor of 1001 entries, to be spoilt.
struct Hostile {
  std::uint8_t kind = 1;
  std::uint64_t entries = 1001;
  std::uint8_t bits = 1;
  std::vector<std::uint64_t> sizes = {1, 2};
  std::vector<float> floats = {1, -2, 0};
  std::size_t id_bytes = 126;
  std::uint8_t ids = 0;
  std::int64_t tensor = 1001;

  Bytes sealed() const {
    Bytes body = {std::byte{kind}};
    append_varint(body, entries);
    body.push_back(std::byte{bits});
    if (kind == 1) body.insert(body.end(), 4, std::byte{9});
    for (const std::uint64_t size : sizes) append_varint(body, size);
    const auto bytes = std::as_bytes(std::span(floats));
    body.insert(body.end(), bytes.begin(), bytes.end());
    body.insert(body.end(), id_bytes, std::byte{ids});
    Bytes out;
    PayloadWriter writer(out, Format::clusters, body.size());
    std::ranges::copy(body, writer.body().begin());
    writer.seal();
    return out;
  }
  bool decodes() const {
    at::Tensor sum = at::zeros({tensor});
    Round round = round_at(1);
    round.pass = 1;
    const auto done = casq()->decode_add(sealed(), round, 1, sum);
    EXPECT_TRUE(done || done.error().code == Errc::malformed);
    return done.has_value();
  }
  bool absorbed() const {
    const Bytes payload = sealed();
    const BytesView result = payload;
    const auto done = casq()->absorb(std::span(&result, 1), round_at(1));
    EXPECT_TRUE(done || done.error().code == Errc::malformed);
    return done.has_value();
  }
};

TEST(Casq, RefusesWhatNoEncoderWrites) {
  EXPECT_TRUE(Hostile{}.decodes());
  EXPECT_FALSE((Hostile{.kind = 3}.decodes()));
  EXPECT_FALSE((Hostile{.entries = 1000}.decodes()));
  EXPECT_FALSE((Hostile{.bits = 0, .sizes = {}}.decodes()));
  EXPECT_FALSE((Hostile{.bits = 5}.decodes()));
  EXPECT_FALSE((Hostile{.sizes = {0, 3}}.decodes()));
  EXPECT_FALSE((Hostile{.sizes = {1, 0x7FFFFFFFF}}.decodes()));
  EXPECT_FALSE((Hostile{.sizes = {1, 3}}.decodes()));
  EXPECT_FALSE((Hostile{.floats = {1, NAN, 0}}.decodes()));
  EXPECT_FALSE((Hostile{.floats = {INFINITY, -2, 0}}.decodes()));
  EXPECT_FALSE((Hostile{.floats = {-1, -2, 0}}.decodes())) << "a positive cluster of negative entries";
  EXPECT_FALSE((Hostile{.floats = {1, -2, 1}}.decodes()));
  EXPECT_FALSE((Hostile{.id_bytes = 125}.decodes()));
  EXPECT_FALSE((Hostile{.id_bytes = 127}.decodes()));
  EXPECT_FALSE((Hostile{.ids = 0xFF}.decodes())) << "bits behind the last id";
  Hostile large{.entries = 300'000, .sizes = {2, 2}, .floats = {1, 0, -2, 0}, .id_bytes = 37'500, .tensor = 300'000};
  EXPECT_TRUE(large.decodes());
  large.sizes = {1, 3};
  EXPECT_FALSE(large.decodes()) << "a segment without a bucket";
}

TEST(Casq, RefusesClustersThatAreNone) {
  const Hostile good{.kind = 2, .bits = 2, .sizes = {1, 1, 1, 1}, .floats = {3, 4}, .id_bytes = 0};
  EXPECT_TRUE(good.absorbed());
  EXPECT_FALSE(Hostile{}.absorbed()) << "tables";
  EXPECT_TRUE((Hostile{.kind = 2, .bits = 0, .sizes = {}, .floats = {}, .id_bytes = 0}.absorbed()));
  for (const std::vector<float>& thresholds :
       std::vector<std::vector<float>>{{}, {3}, {3, NAN}, {-3, 4}, {3, INFINITY}}) {
    Hostile bad = good;
    bad.floats = thresholds;
    EXPECT_FALSE(bad.absorbed());
  }
  Hostile unordered{
      .kind = 2, .bits = 3, .sizes = {1, 1, 1, 1, 1, 1, 1, 1}, .floats = {1, 2, 3, 1, 3, 2}, .id_bytes = 0};
  EXPECT_FALSE(unordered.absorbed());
  unordered.floats = {1, 2, 3, 1, 1, 2};
  EXPECT_TRUE(unordered.absorbed());
  Hostile large = good;
  large.sizes[2] = 1'000'000;
  EXPECT_FALSE(large.absorbed()) << "tables much larger than the tensor";
  EXPECT_FALSE(casq()->absorb({}, round_at(1)));
}

TEST(Casq, ClustersForAnotherTensorAreRefused) {
  const auto compressor = casq();
  Round round = round_at(1);
  Bytes proposal;
  ASSERT_TRUE(compressor->encode(gaussian(2'000, 12), round, proposal));
  const BytesView result = proposal;
  ASSERT_TRUE(compressor->absorb(std::span(&result, 1), round));
  round.pass = 1;
  Bytes out;
  EXPECT_EQ(compressor->encode(gaussian(3'000, 12), round, out).error().code, Errc::malformed);
  EXPECT_TRUE(out.empty());
}

}  // namespace
}  // namespace weir::compressors::test
