// A rank gives up while a frame is half written.

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <future>
#include <thread>

#include "base/errc.hpp"
#include "collectives/transports/frame.hpp"
#include "collectives/transports/socket_stream.hpp"
#include "collectives/transports/stream_communicator.hpp"
#include "tests/collectives/group.hpp"
#include "tests/collectives/streams.hpp"

namespace weir::collectives {
namespace {

using namespace testing;

constexpr std::uint64_t attempt = 9;
constexpr Subject subject{.version = 4, .bucket = 2, .part = 1};
constexpr std::size_t length = 8'000'000;  ///< more than fits on the way

std::unique_ptr<Fabric> rank_with(std::uint32_t rank, std::array<std::unique_ptr<Stream>, 3> streams) {
  std::vector<std::vector<std::unique_ptr<Stream>>> lanes(1);
  for (auto& stream : streams) lanes[0].push_back(std::move(stream));
  return stream_fabric({.rank = rank, .attempt = attempt}, std::move(lanes));
}

Task<> send(Communicator& group, std::uint32_t to, BytesView message) {
  Send sent(group, to, subject, message);
  co_return co_await sent;
}

std::future<Result<void>> begin(Fabric& rank, std::function<Task<>(Communicator& group)> body) {
  return std::async(std::launch::async,
                    [&rank, body = std::move(body)] { return rank.thread().run([&] { return body(rank.lane(0)); }); });
}

void wait_until_something_is_sent(const Fabric& rank) {
  while (rank.traffic().sent_bytes == 0) std::this_thread::yield();
}

void expect_lost(const Result<void>& result, std::uint32_t rank) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::peer_lost) << result.error().message();
  EXPECT_NE(result.error().context.find("rank " + std::to_string(rank)), std::string::npos) << result.error().context;
}

TEST(LastWords, FollowTheFrameThatWasBeingWritten) {
  auto [peer, own] = sockets();
  auto [lost, link_to_lost] = sockets();
  const auto rank = rank_with(0, {nullptr, std::make_unique<SocketStream>(std::move(own)),
                                  std::make_unique<SocketStream>(std::move(link_to_lost))});
  auto sending = begin(*rank, [](Communicator& group) -> Task<> {
    const Bytes message(length, std::byte{5});
    co_return co_await send(group, 1, message);
  });
  wait_until_something_is_sent(*rank);
  lost = Descriptor();
  expect_lost(sending.get(), 2);

  Bytes stream(length);
  std::size_t got = 0;
  ::fcntl(*peer, F_SETFL, 0);
  for (ssize_t more; (more = ::recv(*peer, stream.data() + got, stream.size() - got, 0)) > 0;) {
    got += static_cast<std::size_t>(more);
  }
  const std::size_t frame_bytes = Communicator::frame_header_bytes + Communicator::piece_bytes_max;
  ASSERT_EQ(got, frame_bytes + Communicator::frame_header_bytes) << "one frame, and why there are no more";
  FrameHeaderBytes first;
  std::copy_n(stream.begin(), first.size(), first.begin());
  EXPECT_TRUE(checksum_fits(first, digest_of(BytesView(stream).subspan(first.size(), Communicator::piece_bytes_max))));
  FrameHeaderBytes last;
  std::copy_n(stream.begin() + static_cast<std::ptrdiff_t>(frame_bytes), last.size(), last.begin());
  const auto header = decode(last);
  ASSERT_TRUE(header) << header.error().message();
  EXPECT_EQ(header->kind, FrameKind::failed);
  EXPECT_EQ(header->message_bytes, 2U);
}

class LastWordsOver : public ::testing::TestWithParam<Connection (*)()> {};
INSTANTIATE_TEST_SUITE_P(Streams, LastWordsOver, ::testing::Values(over_sockets, over_shared_memory),
                         [](const auto& info) { return info.index == 0 ? "sockets" : "shared_memory"; });

TEST_P(LastWordsOver, NameTheLostRankThoughItsLossIsNoticedByOneAlone) {
  Connection between = GetParam()();
  auto [lost, link_to_lost] = sockets();
  auto [silent, link_to_silent] = sockets();
  const auto zero =
      rank_with(0, {nullptr, std::move(between[0]), std::make_unique<SocketStream>(std::move(link_to_lost))});
  const auto one =
      rank_with(1, {std::move(between[1]), nullptr, std::make_unique<SocketStream>(std::move(link_to_silent))});
  auto sending = begin(*zero, [](Communicator& group) -> Task<> {
    const Bytes message(length, std::byte{5});
    co_return co_await send(group, 1, message);
  });
  // Rank 1 takes nothing before rank 0 has given up.
  Keep keep;
  std::promise<Receive*> begun;
  auto receiving = begin(*one, [&](Communicator& group) -> Task<> {
    Receive arrival(group, 0, subject, keep, 0);
    begun.set_value(&arrival);
    co_return co_await arrival;
  });
  Receive* const arrival = begun.get_future().get();
  wait_until_something_is_sent(*zero);
  lost = Descriptor();
  expect_lost(sending.get(), 2);
  one->thread().call([&] {
    if (!arrival->ended()) arrival->admit(Receive::everything);
  });
  expect_lost(receiving.get(), 2);
  EXPECT_EQ(one->lost_rank(), 2U);
}

TEST(LastWords, AreWaitedForByThoseWhoCloseAfterAFailure) {
  Connection between = over_sockets();
  auto [lost, link_to_lost] = sockets();
  auto [silent, link_to_silent] = sockets();
  auto zero = rank_with(0, {nullptr, std::move(between[0]), std::make_unique<SocketStream>(std::move(link_to_lost))});
  const auto one =
      rank_with(1, {std::move(between[1]), nullptr, std::make_unique<SocketStream>(std::move(link_to_silent))});
  auto sending = begin(*zero, [](Communicator& group) -> Task<> {
    const Bytes message(length, std::byte{5});
    co_return co_await send(group, 1, message);
  });
  wait_until_something_is_sent(*zero);
  lost = Descriptor();
  expect_lost(sending.get(), 2);
  auto receiving = begin(*one, [](Communicator& group) -> Task<> {
    Keep keep;
    Receive arrival(group, 0, subject, keep);
    co_return co_await arrival;
  });
  zero->close();
  zero.reset();
  expect_lost(receiving.get(), 2);
}

/// A stream whose peer's host is gone without a word.
class Unanswered final : public Stream {
 public:
  explicit Unanswered(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}

  Result<std::size_t> write(std::span<const iovec> parts) override { return stream_->write(parts); }
  Result<std::size_t> read(std::span<const iovec> parts) override { return stream_->read(parts); }
  void end_writing() override { stream_->end_writing(); }
  std::size_t queued_bytes() const override { return stream_->queued_bytes(); }
  int descriptor() const override { return stream_->descriptor(); }
  Readiness readiness(std::uint32_t events) override { return stream_->readiness(events); }
  bool is_unanswered() const override { return true; }
  bool needs_checksums() const override { return true; }
  std::optional<LineUse> line_use() const override { return std::nullopt; }

 private:
  std::unique_ptr<Stream> stream_;
};

TEST(LostHost, IsNamedToAllWhenItDoesNotAnswer) {
  Connection between = over_sockets();
  Connection to_lost = over_sockets();
  Connection also_to_lost = over_sockets();
  const auto zero = rank_with(0, {nullptr, std::move(between[0]), std::make_unique<Unanswered>(std::move(to_lost[0]))});
  const auto one = rank_with(1, {std::move(between[1]), nullptr, std::move(also_to_lost[0])});
  const auto receive = [](Communicator& group) -> Task<> {
    Keep keep;
    Receive arrival(group, 2, subject, keep);
    co_return co_await arrival;
  };
  auto zero_waits = begin(*zero, receive);
  auto one_waits = begin(*one, receive);
  expect_lost(zero_waits.get(), 2);
  expect_lost(one_waits.get(), 2);
}

}  // namespace
}  // namespace weir::collectives
