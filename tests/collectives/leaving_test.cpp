// How long a rank that leaves waits for another, which a test plays byte by byte.

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/errc.hpp"
#include "collectives/transports/frame.hpp"
#include "collectives/transports/paced_stream.hpp"
#include "collectives/transports/socket_stream.hpp"
#include "collectives/transports/stream_communicator.hpp"
#include "tests/collectives/group.hpp"
#include "tests/collectives/streams.hpp"

namespace weir::collectives {
namespace {

using namespace testing;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::uint64_t attempt = 9;
constexpr std::size_t header_bytes = Communicator::frame_header_bytes;
constexpr std::size_t length = 100'000;                                  ///< of the last message: it fits on its way
constexpr std::size_t all_bytes = header_bytes + length + header_bytes;  ///< with the goodbye

/// Rank 0 of two, with a lane or two.
std::unique_ptr<Fabric> rank_over(milliseconds linger, std::unique_ptr<Stream> lane_0,
                                  std::unique_ptr<Stream> lane_1 = nullptr) {
  std::vector<std::vector<std::unique_ptr<Stream>>> lanes;
  for (auto* lane : {&lane_0, &lane_1}) {
    if (!*lane) continue;
    lanes.emplace_back(2);
    lanes.back()[1] = std::move(*lane);
  }
  return stream_fabric({.rank = 0, .attempt = attempt, .linger = linger}, std::move(lanes));
}

std::unique_ptr<Fabric> rank_over(milliseconds linger, Descriptor socket) {
  return rank_over(linger, std::make_unique<SocketStream>(std::move(socket)));
}

Task<> send_one(Communicator& group, BytesView message) {
  Send sent(group, 1, Subject(), message);
  co_return co_await sent;
}

Result<void> send(Fabric& rank, std::size_t bytes, std::uint32_t lane = 0) {
  const Bytes message(bytes, std::byte{5});
  return rank.thread().run([&] { return send_one(rank.lane(lane), message); });
}

/// Closes its connections, too.
std::future<void> leave(std::unique_ptr<Fabric> rank) {
  return std::async(std::launch::async, [rank = std::move(rank)]() mutable {
    rank->close();
    rank.reset();
  });
}

/// Rank 1, in one lane.
class Other {
 public:
  explicit Other(Descriptor socket, std::uint16_t lane = 0) : socket_(std::move(socket)), lane_(lane) {}

  void say_that_it_waits() {
    const FrameHeader header{.kind = FrameKind::waits, .attempt = attempt, .from = 1, .lane = lane_, .subject = {}};
    const FrameHeaderBytes frame = encode(header, digest_of({}));
    // That the connection is closed is seen when it is read.
    if (::send(*socket_, frame.data(), frame.size(), MSG_NOSIGNAL) < 0) return;
  }

  /// Reads a little of what has arrived. Returns false at the end, or if the connection is broken.
  bool read() {
    std::array<std::byte, 512> piece;
    const ssize_t more = ::recv(*socket_, piece.data(), piece.size(), 0);
    if (more <= 0) return more < 0 && errno == EAGAIN;
    got_ += static_cast<std::size_t>(more);
    return true;
  }

  /// Returns how much has been read in all.
  std::size_t read_to_end() {
    while (becomes(POLLIN, guard) && read()) continue;
    return got_;
  }

  /// Gives one `sign` of life after the other for longer than the limit. Returns false if it was once silent for so
  /// long, on a machine that is very slow, that rank 0 may rightly have given it up.
  template <class Sign>
  bool go_on(milliseconds limit, const Sign& sign) {
    bool in_time = true;
    auto given = steady_clock::now();
    const auto end = given + 3 * limit / 2;
    while (given < end && !becomes(0, milliseconds(20))) {
      const auto before = std::exchange(given, steady_clock::now());
      sign();
      in_time &= steady_clock::now() - before < limit / 2;
    }
    return in_time;
  }

 private:
  /// Whether these events come, or the connection breaks, before the time has passed.
  bool becomes(short events, milliseconds time) {
    pollfd watched{.fd = *socket_, .events = events, .revents = 0};
    return ::poll(&watched, 1, static_cast<int>(time.count())) == 1;
  }

  Descriptor socket_;
  const std::uint16_t lane_;
  std::size_t got_ = 0;
};

TEST(Leaving, TakesAsLongAsTheOtherSaysThatItWaits) {
  constexpr milliseconds limit{1000};
  auto [own, theirs] = tcp_sockets();
  auto rank = rank_over(limit, std::move(own));
  ASSERT_TRUE(send(*rank, length)) << "all is in the hands of the system";
  std::future<void> left = leave(std::move(rank));
  Other other(std::move(theirs));
  const bool in_time = other.go_on(limit, [&] { other.say_that_it_waits(); });
  EXPECT_TRUE(other.read_to_end() == all_bytes || !in_time);
}

TEST(Leaving, TakesAsLongInAllLanesAsTheOtherGoesOnInOne) {
  constexpr milliseconds limit{400};
  auto [own_0, theirs_0] = tcp_sockets();
  auto [own_1, theirs_1] = tcp_sockets();
  auto rank = rank_over(limit, std::make_unique<SocketStream>(std::move(own_0)),
                        std::make_unique<SocketStream>(std::move(own_1)));
  ASSERT_TRUE(send(*rank, length, 0));
  ASSERT_TRUE(send(*rank, length, 1));
  std::future<void> left = leave(std::move(rank));
  Other first(std::move(theirs_0), 0);
  Other second(std::move(theirs_1), 1);
  bool in_time = first.go_on(limit, [&] { first.say_that_it_waits(); });
  for (int i = 0; i < 2; ++i) in_time &= second.go_on(limit, [&] { second.say_that_it_waits(); });
  EXPECT_TRUE((first.read_to_end() == all_bytes && second.read_to_end() == all_bytes) || !in_time);
}

TEST(Leaving, TakesAsLongAsTheOtherReads) {
  constexpr milliseconds limit{1000};
  auto [own, theirs] = tcp_sockets();
  auto rank = rank_over(limit, std::move(own));
  ASSERT_TRUE(send(*rank, length));
  std::future<void> left = leave(std::move(rank));
  Other other(std::move(theirs));
  const bool in_time = other.go_on(limit, [&] { other.read(); });
  other.say_that_it_waits();  // which a connection that is closed would not survive
  EXPECT_TRUE(other.read_to_end() == all_bytes || !in_time);
}

TEST(Leaving, EndsIfTheOtherNeitherReadsNorSaysAnything) {
  constexpr milliseconds linger{200};
  auto [own, theirs] = tcp_sockets();
  auto rank = rank_over(linger, std::move(own));
  ASSERT_TRUE(send(*rank, length));
  std::future<void> left;  // destroyed after the other, with which it ends at the latest
  Other other(std::move(theirs));
  other.say_that_it_waits();  // once
  const auto begun = steady_clock::now();
  left = leave(std::move(rank));
  ASSERT_EQ(left.wait_for(guard), std::future_status::ready);
  EXPECT_GE(steady_clock::now() - begun, linger);
}

TEST(Leaving, EndsAtOnceIfTheOtherIsKilled) {
  auto [own, theirs] = tcp_sockets();
  auto rank = rank_over(2 * guard, std::move(own));
  ASSERT_TRUE(send(*rank, length));
  std::future<void> left = leave(std::move(rank));
  theirs = Descriptor();
  EXPECT_EQ(left.wait_for(guard), std::future_status::ready);
}

TEST(Leaving, EndsAtOnceIfTheGroupIsAborted) {
  auto [own, theirs] = tcp_sockets();
  const auto rank = rank_over(2 * guard, std::move(own));
  ASSERT_TRUE(send(*rank, length));
  const auto closing = std::async(std::launch::async, [&] { rank->close(); });
  const Other other(std::move(theirs));
  while (rank->traffic().sent_bytes < all_bytes) std::this_thread::yield();
  rank->abort({Errc::cancelled, "the job is stopped"});
  EXPECT_EQ(closing.wait_for(guard), std::future_status::ready);
}

/// At the rate of the slowest line, with a clock that stands still: after the first 4096 bytes nothing passes any more.
std::unique_ptr<Stream> paced(Descriptor socket) {
  const auto now = [] { return TokenBucket::Time(); };
  return std::make_unique<PacedStream>(std::make_unique<SocketStream>(std::move(socket)),
                                       std::make_shared<Pace>(/*bytes_per_second=*/125, now));
}
constexpr std::size_t burst_bytes = 4096;

TEST(Leaving, ARateDoesNotHoldUpTheGoodbye) {
  auto [own, theirs] = sockets();
  auto rank = rank_over(milliseconds(100), paced(std::move(own)));
  ASSERT_TRUE(send(*rank, burst_bytes - header_bytes));
  std::future<void> left = leave(std::move(rank));
  Other other(std::move(theirs));
  EXPECT_EQ(other.read_to_end(), burst_bytes + header_bytes);
}

TEST(Leaving, ARateDoesNotHoldUpWhyARankGivesUp) {
  auto [own, theirs] = sockets();
  const auto rank = rank_over(2 * guard, paced(std::move(own)));
  auto sending = std::async(std::launch::async, [&] { return send(*rank, 2 * burst_bytes); });
  while (rank->traffic().sent_bytes < burst_bytes) std::this_thread::yield();
  rank->abort({Errc::cancelled, "enough"});
  EXPECT_FALSE(sending.get());
  Other other(std::move(theirs));
  EXPECT_EQ(other.read_to_end(), header_bytes + 2 * burst_bytes + header_bytes) << "the rest of the frame, and why";
}

}  // namespace
}  // namespace weir::collectives
