#include "collectives/ring.hpp"

#include <cmath>
#include <cstring>
#include <random>
#include <tuple>

#include "base/errc.hpp"
#include "tests/collectives/group.hpp"

namespace weir::collectives {
namespace {

using namespace testing;

/// Every collective over both transports and groups of 1 to 7 ranks.
class Ring : public ::testing::TestWithParam<std::tuple<Transport, std::uint32_t>> {
 protected:
  std::uint32_t size() const { return std::get<1>(GetParam()); }
  Communicators make() const { return std::get<0>(GetParam()).make(size()); }
};

std::string case_name(const ::testing::TestParamInfo<std::tuple<Transport, std::uint32_t>>& info) {
  return std::get<0>(info.param).name + ("_" + std::to_string(std::get<1>(info.param)));
}

INSTANTIATE_TEST_SUITE_P(Groups, Ring,
                         ::testing::Combine(::testing::ValuesIn(transports), ::testing::Values(1U, 2U, 3U, 4U, 7U)),
                         case_name);

std::vector<float> noise(std::uint32_t rank, std::size_t count) {
  std::mt19937 random(rank * 977 + static_cast<std::uint32_t>(count));
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& v : values) v = normal(random);
  return values;
}

TEST_P(Ring, SumsAnyLengthToTheSameBitsOnEveryRank) {
  const Communicators group = make();
  // Nothing, fewer than ranks, around the vector block, more than one piece per chunk, no multiple of
  // anything.
  for (const std::size_t count : {0UL, 1UL, 2UL, 6UL, 33UL, 1000UL, 200'003UL, 600'001UL}) {
    std::vector<std::vector<float>> values(size());
    std::vector<double> expected(count);
    for (std::uint32_t r = 0; r < size(); ++r) {
      values[r] = noise(r, count);
      for (std::size_t i = 0; i < count; ++i) expected[i] += values[r][i];
    }
    on_every_rank(size(), [&](std::uint32_t rank) {
      const auto before = group[rank]->traffic();
      const auto reduced = ring_all_reduce(*group[rank], values[rank]);
      ASSERT_TRUE(reduced) << reduced.error().message();
      EXPECT_EQ(group[rank]->traffic().sent_bytes - before.sent_bytes, ring_all_reduce_sent_bytes(rank, size(), count));
    });
    for (std::size_t i = 0; i < count; ++i) ASSERT_NEAR(values[0][i], expected[i], 1e-4) << "element " << i;
    for (std::uint32_t r = 1; r < size(); ++r) {
      ASSERT_EQ(count == 0 ? 0 : std::memcmp(values[0].data(), values[r].data(), count * sizeof(float)), 0)
          << "rank " << r << " differs for " << count << " elements";
    }
  }
}

TEST_P(Ring, SendsTheFormulaPlusFraming) {
  const Communicators group = make();
  const std::size_t count = 84'000;  // a multiple of every group size here
  on_every_rank(size(), [&](std::uint32_t rank) {
    std::vector<float> values(count, 1.0F);
    ASSERT_TRUE(ring_all_reduce(*group[rank], values));
    const std::uint64_t messages = 2 * (size() - 1);
    const std::uint64_t chunk_bytes = count / size() * sizeof(float);
    const std::uint64_t frames = (chunk_bytes + Communicator::piece_bytes_max - 1) / Communicator::piece_bytes_max;
    const std::uint64_t due = messages * (chunk_bytes + frames * Communicator::frame_header_bytes);
    EXPECT_EQ(group[rank]->traffic().sent_bytes, due);
    EXPECT_EQ(group[rank]->traffic().received_bytes, due);
  });
}

/// What a chunk's elements become on their way around the ring: rank after rank adds its share in float32 and rounds.
template <class Number>
std::vector<Number> sum_around_the_ring(const std::vector<std::vector<Number>>& shares, Number (*round)(float)) {
  const std::size_t ranks = shares.size();
  const std::size_t count = shares[0].size();
  std::vector<Number> sums(count);
  std::size_t begin = 0;
  for (std::size_t chunk = 0; chunk < ranks; ++chunk) {
    const std::size_t end = begin + count / ranks + (chunk < count % ranks ? 1 : 0);
    for (std::size_t i = begin; i < end; ++i) {
      sums[i] = shares[chunk][i];
      for (std::size_t hop = 1; hop < ranks; ++hop) {
        sums[i] = round(to_float(shares[(chunk + hop) % ranks][i]) + to_float(sums[i]));
      }
    }
    begin = end;
  }
  return sums;
}

/// `scale`: of the noise; a large one makes sums that saturate.
template <class Number>
void sum_in_sixteen_bits(const Communicators& group, Number (*round)(float), float scale) {
  const auto size = static_cast<std::uint32_t>(group.size());
  for (const std::size_t count : {0UL, 1UL, 2UL, 6UL, 33UL, 1001UL, 200'003UL}) {
    std::vector<std::vector<Number>> values(size);
    for (std::uint32_t r = 0; r < size; ++r) {
      for (const float value : noise(r, count)) values[r].push_back(round(scale * value));
    }
    const std::vector<Number> expected = sum_around_the_ring(values, round);
    on_every_rank(size, [&](std::uint32_t rank) {
      const auto before = group[rank]->traffic();
      const auto reduced = ring_all_reduce(*group[rank], std::span(values[rank]));
      ASSERT_TRUE(reduced) << reduced.error().message();
      EXPECT_EQ(group[rank]->traffic().sent_bytes - before.sent_bytes,
                ring_all_reduce_sent_bytes(rank, size, count, sizeof(Number)));
    });
    for (std::uint32_t r = 0; r < size; ++r) {
      ASSERT_EQ(count == 0 ? 0 : std::memcmp(values[r].data(), expected.data(), count * sizeof(Number)), 0)
          << "rank " << r << " of " << size << ", " << count << " elements";
      for (const Number number : values[r]) ASSERT_TRUE(std::isfinite(to_float(number)));
    }
  }
}

TEST_P(Ring, SumsHalvesAndSaturates) {
  const Communicators group = make();
  sum_in_sixteen_bits<Half>(group, to_half, 1);
  sum_in_sixteen_bits<Half>(group, to_half, 50'000);
}

TEST_P(Ring, SumsBFloat16AndSaturates) {
  const Communicators group = make();
  sum_in_sixteen_bits<BFloat16>(group, to_bfloat16, 1);
  sum_in_sixteen_bits<BFloat16>(group, to_bfloat16, 2e38F);
}

TEST_P(Ring, FindsTheLargestOfEachElement) {
  const Communicators group = make();
  for (const std::size_t count : {0UL, 1UL, 6UL, 33UL, 1001UL, 200'003UL}) {
    std::vector<std::vector<float>> values(size());
    std::vector<float> expected(count, -INFINITY);
    for (std::uint32_t r = 0; r < size(); ++r) {
      values[r] = noise(r, count);
      for (std::size_t i = 0; i < count; ++i) expected[i] = std::max(expected[i], values[r][i]);
    }
    on_every_rank(size(), [&](std::uint32_t rank) {
      const auto before = group[rank]->traffic();
      const auto reduced = ring_all_reduce_max(*group[rank], values[rank]);
      ASSERT_TRUE(reduced) << reduced.error().message();
      EXPECT_EQ(group[rank]->traffic().sent_bytes - before.sent_bytes, ring_all_reduce_sent_bytes(rank, size(), count));
    });
    for (std::uint32_t r = 0; r < size(); ++r) ASSERT_EQ(values[r], expected) << "rank " << r;
  }
}

Bytes payload_of(std::uint32_t rank, std::size_t bytes) { return Bytes(bytes, static_cast<std::byte>(rank + 1)); }

TEST_P(Ring, GathersRaggedPayloadsInRankOrder) {
  const Communicators group = make();
  on_every_rank(size(), [&](std::uint32_t rank) {
    std::vector<Bytes> gathered;
    for (const std::size_t scale : {0UL, 1UL, 999UL, 400'000UL, 3UL}) {  // the last: buffers shrink again
      const auto done = ring_all_gather(*group[rank], payload_of(rank, rank * scale), 10'000'000, gathered);
      ASSERT_TRUE(done) << done.error().message();
      ASSERT_EQ(gathered.size(), size());
      for (std::uint32_t r = 0; r < size(); ++r) ASSERT_EQ(gathered[r], payload_of(r, r * scale)) << "from rank " << r;
    }
  });
}

class RingLimits : public ::testing::TestWithParam<Transport> {};
INSTANTIATE_TEST_SUITE_P(Transports, RingLimits, ::testing::ValuesIn(transports), transport_name);

TEST_P(RingLimits, RefusesAPayloadAboveTheLimitBeforeTakingMemoryForIt) {
  const Communicators group = GetParam().make(2);
  on_every_rank(2, [&](std::uint32_t rank) {
    std::vector<Bytes> gathered;
    const std::size_t limit = rank == 0 ? 1000 : 10'000;
    const auto done = ring_all_gather(*group[rank], payload_of(rank, rank == 0 ? 10 : 5000), limit, gathered);
    if (rank == 1) return;  // whether this side is done before the other refuses is a race
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Errc::malformed);
    EXPECT_TRUE(gathered[1].empty());
  });
}

TEST_P(RingLimits, RefusesAnOwnPayloadAboveTheLimit) {
  const Communicators group = GetParam().make(1);
  std::vector<Bytes> gathered;
  EXPECT_EQ(ring_all_gather(*group[0], Bytes(11), 10, gathered).error().code, Errc::invalid_argument);
}

TEST_P(RingLimits, NoticesThatTheRanksReduceDifferentLengths) {
  const Communicators group = GetParam().make(2);
  on_every_rank(2, [&](std::uint32_t rank) {
    std::vector<float> values(rank == 0 ? 100 : 90);
    const auto reduced = ring_all_reduce(*group[rank], values);
    ASSERT_FALSE(reduced);
    EXPECT_TRUE(reduced.error().code == Errc::malformed || reduced.error().code == Errc::peer_lost);
  });
}

}  // namespace
}  // namespace weir::collectives
