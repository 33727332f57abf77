#include "collectives/transports/paced_stream.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/bytes.hpp"
#include "collectives/topologies/ring.hpp"
#include "tests/collectives/group.hpp"
#include "tests/collectives/streams.hpp"

namespace weir::collectives {
namespace {

using namespace testing;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

/// Shows what it is set to.
struct Clock {
  TokenBucket::Time time;
  std::function<TokenBucket::Time()> now() {
    return [this] { return time; };
  }
};

constexpr double rate = 1e6;
constexpr double burst = 0.02 * rate;

TEST(TokenBucket, LetsAsManyPassAsTheRateAllowsAndABurst) {
  for (const auto tick : {milliseconds(1), milliseconds(7), milliseconds(20)}) {
    Clock clock;
    TokenBucket bucket(rate, clock.now());
    double passed = 0;
    for (nanoseconds time{0}; time < std::chrono::seconds(10); time += tick) {
      const std::size_t now = bucket.allowance();
      bucket.take(now);
      passed += static_cast<double>(now);
      clock.time += tick;
    }
    EXPECT_LE(passed, 10 * rate + burst) << tick.count();
    EXPECT_GE(passed, 10 * rate - burst) << tick.count();
  }
}

TEST(TokenBucket, SavesUpNoMoreThanABurst) {
  Clock clock;
  TokenBucket bucket(rate, clock.now());
  clock.time += std::chrono::hours(1);
  EXPECT_EQ(bucket.allowance(), burst);
}

TEST(TokenBucket, SaysWhenMoreMayPass) {
  Clock clock;
  TokenBucket bucket(rate, clock.now());
  EXPECT_EQ(bucket.wait(), nanoseconds(0));
  bucket.take(bucket.allowance());
  EXPECT_EQ(bucket.allowance(), 0U);
  const auto wait = bucket.wait();
  EXPECT_EQ(wait, milliseconds(5)) << "a quarter of a burst is worth a call";
  clock.time += wait - nanoseconds(1000);
  EXPECT_EQ(bucket.allowance(), 0U);
  clock.time += nanoseconds(1000);
  EXPECT_EQ(bucket.allowance(), burst / 4);
}

TEST(TokenBucket, OfTheSlowestLineLetsSomethingPassEverySecond) {
  Clock clock;
  TokenBucket bucket(/*bytes_per_second=*/125, clock.now());
  bucket.take(bucket.allowance());
  EXPECT_EQ(bucket.allowance(), 0U);
  EXPECT_EQ(bucket.wait(), std::chrono::seconds(1));
  clock.time += std::chrono::seconds(1);
  EXPECT_EQ(bucket.allowance(), 125U);
}

iovec part_of(std::span<std::byte> bytes) { return {bytes.data(), bytes.size()}; }

std::byte byte_at(std::size_t position) { return static_cast<std::byte>(position % 251); }

class Paced : public ::testing::TestWithParam<Connection (*)()> {};
INSTANTIATE_TEST_SUITE_P(Streams, Paced, ::testing::Values(&over_sockets, &over_shared_memory));

/// Passes what has happened on to the stream, as the loop does.
void hear(Stream& stream) {
  pollfd watched{.fd = stream.descriptor(), .events = POLLIN, .revents = 0};
  if (::poll(&watched, 1, 0) > 0) stream.readiness(0);
}

TEST_P(Paced, CarriesBytesInOrderAtItsRateInBothDirections) {
  for (const bool writes : {true, false}) {
    auto [one, other] = GetParam()();
    Clock clock;
    PacedStream paced(std::move(one), std::make_shared<Pace>(rate, clock.now()));
    Stream& from = writes ? static_cast<Stream&>(paced) : *other;
    Stream& to = writes ? *other : static_cast<Stream&>(paced);
    std::size_t sent = 0;
    std::size_t received = 0;
    constexpr int ticks = 300;
    for (int tick = 0; tick < ticks; ++tick, clock.time += milliseconds(10)) {
      for (std::size_t moved = 1; moved > 0;) {
        std::vector<std::byte> out(16'384);
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = byte_at(sent + i);
        const std::vector<iovec> parts{part_of(std::span(out).first(100)), part_of(std::span(out).subspan(100))};
        hear(from);
        const std::size_t written = from.write(parts).value();
        sent += written;
        std::vector<std::byte> in(50'000);
        const iovec whole = part_of(in);
        hear(to);
        moved = to.read(std::span(&whole, 1)).value();
        for (std::size_t i = 0; i < moved; ++i) ASSERT_EQ(in[i], byte_at(received + i));
        received += moved;
        moved += written;
      }
    }
    const double limit = rate * ticks * 0.01;
    EXPECT_LE(static_cast<double>(received), limit + burst) << writes;
    EXPECT_GE(static_cast<double>(received), limit - 2 * burst) << writes;
  }
}

TEST_P(Paced, SharesItsRateWithTheOthersOfItsRank) {
  Clock clock;
  const auto pace = std::make_shared<Pace>(rate, clock.now());
  auto [one, one_end] = GetParam()();
  auto [two, two_end] = GetParam()();
  PacedStream first(std::move(one), pace);
  PacedStream second(std::move(two), pace);
  std::vector<std::byte> out(15'000);
  const iovec whole = part_of(out);
  EXPECT_EQ(first.write(std::span(&whole, 1)).value(), 15'000U);
  EXPECT_EQ(second.write(std::span(&whole, 1)).value(), 5'000U) << "what is left of the burst";
  EXPECT_EQ(first.write(std::span(&whole, 1)).value(), 0U);
}

TEST_P(Paced, TellsWhenItMayGoOn) {
  auto [one, other] = GetParam()();
  PacedStream paced(std::move(one), std::make_shared<Pace>(rate));
  hear(paced);
  std::vector<std::byte> out(60'000);
  const iovec whole = part_of(out);
  while (paced.write(std::span(&whole, 1)).value() > 0) {
    std::vector<std::byte> in(60'000);
    const iovec room = part_of(in);
    hear(*other);
    while (other->read(std::span(&room, 1)).value() > 0) continue;
    hear(paced);
  }
  pollfd watched{.fd = paced.descriptor(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&watched, 1, 60'000), 1);
  const Readiness now = paced.readiness(0);
  EXPECT_TRUE(now.writable);
  EXPECT_GT(paced.write(std::span(&whole, 1)).value(), 0U);
}

TEST_P(Paced, LetsLastWordsPass) {
  auto [one, other] = GetParam()();
  Clock clock;
  PacedStream paced(std::move(one), std::make_shared<Pace>(rate, clock.now()));
  std::vector<std::byte> out(60'000);
  const iovec whole = part_of(out);
  EXPECT_EQ(paced.write(std::span(&whole, 1)).value(), static_cast<std::size_t>(burst));
  const iovec rest = part_of(std::span(out).subspan(static_cast<std::size_t>(burst)));
  EXPECT_EQ(paced.write(std::span(&rest, 1)).value(), 0U);
  paced.begin_last_words();
  EXPECT_EQ(paced.write(std::span(&rest, 1)).value(), 40'000U);
}

TEST(PacedStream, ReadsFreelyWhatThePeerHasLeftBehind) {
  auto [one, other] = over_sockets();
  Clock clock;
  PacedStream paced(std::move(one), std::make_shared<Pace>(rate, clock.now()));
  std::vector<std::byte> out(60'000);
  const iovec whole = part_of(out);
  ASSERT_EQ(other->write(std::span(&whole, 1)).value(), 60'000U);
  std::vector<std::byte> in(60'000);
  const iovec room = part_of(in);
  EXPECT_EQ(paced.read(std::span(&room, 1)).value(), static_cast<std::size_t>(burst));
  EXPECT_EQ(paced.read(std::span(&room, 1)).value(), 0U);
  other.reset();
  EXPECT_TRUE(paced.readiness(0).hung_up);
  EXPECT_EQ(paced.read(std::span(&room, 1)).value(), 40'000U);
}

// How long it takes at least: on a slow machine it takes longer.
TEST(Mesh, ARankWithASlowLineIsWaitedFor) {
  constexpr std::size_t entries = 500'000;  // 2 MB, of which each of two ranks sends as much around a ring
  for (const bool shared_memory : {true, false}) {
    auto meshes = bind_all(2);
    const auto peers = addresses(meshes);
    const auto start = std::chrono::steady_clock::now();  // of both: one may begin long after the other
    on_every_rank(2, [&](std::uint32_t rank) {
      Group group = group_of(rank, 2);
      group.shared_memory = shared_memory;
      if (rank == 1) group.bytes_per_second = 4e6;
      auto joined = meshes[rank]->join(group, peers, guard);
      ASSERT_TRUE(joined) << joined.error().message();
      std::vector<float> values(entries, static_cast<float>(rank + 1));
      const auto reduced = (*joined)->thread().run([&]() -> Task<> {
        Ring ring((*joined)->lane(0));
        const Buffer buffer{std::as_writable_bytes(std::span(values))};
        co_return co_await ring.all_reduce(buffer, ReduceOp::sum, Subject());
      });
      EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(450)) << "rank " << rank;
      ASSERT_TRUE(reduced) << reduced.error().message();
      EXPECT_TRUE(std::ranges::all_of(values, [](float value) { return value == 3.0F; }));
      (*joined)->close();
    });
  }
}

}  // namespace
}  // namespace weir::collectives
