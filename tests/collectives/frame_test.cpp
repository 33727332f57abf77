#include "collectives/transports/frame.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <thread>

#include "base/errc.hpp"
#include "collectives/transports/socket_stream.hpp"
#include "collectives/transports/stream_communicator.hpp"
#include "tests/collectives/group.hpp"

namespace weir::collectives {
namespace {

constexpr std::uint64_t attempt = 9;
constexpr Subject subject{.version = 4, .bucket = 2, .part = 1};

/// One rank of two, whose peer is the test itself, byte by byte.
class TcpFrames : public ::testing::Test {
 protected:
  void SetUp() override {
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    peer_ = Descriptor(pair[0]);
    own_ = Descriptor(::dup(pair[1]));
    std::vector<std::vector<std::unique_ptr<Stream>>> lanes(1);
    lanes[0].push_back(nullptr);
    lanes[0].push_back(std::make_unique<SocketStream>(Descriptor(pair[1])));
    rank_ = stream_fabric({.rank = 0, .attempt = attempt}, std::move(lanes));
  }

  void send(BytesView bytes) {
    ASSERT_EQ(::send(*peer_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  void send_frame(const FrameHeader& header, BytesView payload) {
    send(encode(header, digest_of(payload)));
    send(payload);
  }
  Result<void> receive(testing::Keep& keep) {
    return rank_->thread().run([&]() -> Task<> {
      Receive arrival(rank_->lane(0), 1, subject, keep);
      co_return co_await arrival;
    });
  }
  boost::system::error_code receive_error() {
    testing::Keep keep;
    const auto done = receive(keep);
    return done ? boost::system::error_code() : done.error().code;
  }

  Descriptor peer_;
  Descriptor own_;  // the rank's own socket
  std::unique_ptr<Fabric> rank_;
  Bytes payload_ = Bytes(100, std::byte{5});
};

/// A rank that waits for a message in an operation, from the beginning until nothing has arrived for a while.
class WaitingRank : public TcpFrames {
 protected:
  void SetUp() override {
    TcpFrames::SetUp();
    rank_->thread().call(
        [&] { rank_->lane(0).begin_operation({.name = "all_reduce", .over = "ring", .about = subject}); });
    receiving_ = std::jthread([this] { result_ = receive(keep_); });
    waits_ = read_frame();
    ASSERT_EQ(waits_.kind, FrameKind::waits);
    ASSERT_EQ(waits_.operation.number, 1);
    ASSERT_EQ(waits_.from, 0);
  }

  FrameHeader read_frame() {
    FrameHeaderBytes bytes;
    EXPECT_EQ(::recv(*peer_, bytes.data(), bytes.size(), MSG_WAITALL), static_cast<ssize_t>(bytes.size()));
    auto header = decode(bytes);
    EXPECT_TRUE(header) << header.error().message();
    return *header;
  }
  Result<void> result() {
    receiving_.join();
    return result_;
  }

  /// What the peer says if it waits in the same operation.
  FrameHeader answer() const {
    FrameHeader header = waits_;
    header.from = 1;
    return header;
  }

  testing::Keep keep_;
  Result<void> result_;
  std::jthread receiving_;
  FrameHeader waits_;  ///< what it has said
};

FrameHeader header_for(BytesView payload) {
  return {.kind = FrameKind::data,
          .attempt = attempt,
          .sequence = 0,
          .from = 1,
          .lane = 0,
          .subject = subject,
          .message_bytes = payload.size(),
          .frame_bytes = static_cast<std::uint32_t>(payload.size())};
}

TEST_F(TcpFrames, AGoodFrameArrives) {
  send_frame(header_for(payload_), payload_);
  testing::Keep keep;
  ASSERT_TRUE(receive(keep));
  EXPECT_EQ(keep.bytes, payload_);
}

TEST_F(TcpFrames, AnyChangedByteIsNoticed) {
  const FrameHeaderBytes good = encode(header_for(payload_), digest_of(payload_));
  for (std::size_t at = 0; at < good.size() + payload_.size(); ++at) {
    SetUp();
    FrameHeaderBytes header = good;
    Bytes payload = payload_;
    (at < header.size() ? header[at] : payload[at - header.size()]) ^= std::byte{0x10};
    send(header);
    send(payload);
    ::shutdown(*peer_, SHUT_WR);  // a length that claims more must not be waited for
    const auto code = receive_error();
    EXPECT_TRUE(code == Errc::malformed || code == Errc::unsupported || code == Errc::peer_lost) << "byte " << at;
  }
}

TEST_F(TcpFrames, AnotherAttemptIsMalformed) {
  FrameHeader header = header_for(payload_);
  header.attempt = attempt - 1;
  send_frame(header, payload_);
  EXPECT_EQ(receive_error(), Errc::malformed);
}

TEST_F(TcpFrames, ARepeatedFrameIsMalformed) {
  send_frame(header_for(payload_), payload_);
  send_frame(header_for(payload_), payload_);
  EXPECT_FALSE(receive_error());
  EXPECT_EQ(receive_error(), Errc::malformed);
}

TEST_F(TcpFrames, AFrameThatClaimsMoreThanItsMessageIsMalformed) {
  FrameHeader header = header_for(payload_);
  header.message_bytes = 50;
  send_frame(header, payload_);
  EXPECT_EQ(receive_error(), Errc::malformed);
}

TEST_F(TcpFrames, AnotherSubjectIsMalformed) {
  FrameHeader header = header_for(payload_);
  header.subject.part = 2;
  send_frame(header, payload_);
  EXPECT_EQ(receive_error(), Errc::malformed);
}

TEST_F(TcpFrames, AHugeFrameLengthIsRefused) {
  FrameHeader header = header_for(payload_);
  header.message_bytes = header.frame_bytes = 0xffffffff;
  send_frame(header, payload_);
  EXPECT_EQ(receive_error(), Errc::malformed);
}

TEST_F(TcpFrames, GarbageIsMalformed) {
  send(Bytes(1000, std::byte{0x77}));
  EXPECT_EQ(receive_error(), Errc::malformed);
}

TEST_F(TcpFrames, APeerThatGaveUpNamesTheCulprit) {
  FrameHeader header = header_for({});
  header.kind = FrameKind::failed;
  header.message_bytes = 5;
  send_frame(header, {});
  EXPECT_EQ(receive_error(), Errc::peer_lost);
  EXPECT_EQ(rank_->lost_rank(), 5U);
}

TEST_F(TcpFrames, APeerThatDisagreesSaysWithWhomAndAboutWhat) {
  FrameHeader header = header_for({});
  header.kind = FrameKind::disagrees;
  header.message_bytes = std::uint64_t{7} << 32 | 5;
  send_frame(header, {});
  testing::Keep keep;
  const auto done = receive(keep);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::malformed);
  EXPECT_EQ(done.error().context, "rank 5 and rank 7 do not agree about bucket 2 of version 4, part 1");
  EXPECT_FALSE(rank_->lost_rank());
}

TEST_F(TcpFrames, AGoodbyeWaitsUntilTheSocketHasRoom) {
  const Bytes filler(4096);
  while (::send(*own_, filler.data(), filler.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
  }
  std::jthread closing([this] { rank_->close(); });
  Bytes read(1 << 20);
  Bytes tail;
  for (ssize_t got; (got = ::recv(*peer_, read.data(), read.size(), 0)) > 0;) {
    tail.insert(tail.end(), read.begin(), read.begin() + got);
  }
  ::shutdown(*peer_, SHUT_WR);
  FrameHeaderBytes last;
  ASSERT_GE(tail.size(), last.size());
  std::copy(tail.end() - static_cast<std::ptrdiff_t>(last.size()), tail.end(), last.begin());
  const auto header = decode(last);
  ASSERT_TRUE(header) << header.error().message();
  EXPECT_EQ(header->kind, FrameKind::goodbye);
}

TEST_F(WaitingRank, GoesOnWaitingForOneThatIsSlow) {
  FrameHeader behind = answer();
  behind.operation = {.number = 0, .mark = 0};
  send_frame(behind, {});
  FrameHeader header = header_for(payload_);
  header.operation = waits_.operation;
  send_frame(header, payload_);
  EXPECT_TRUE(result());
  EXPECT_EQ(keep_.bytes, payload_);
  EXPECT_EQ(rank_->traffic().sent_bytes, 0U) << "what it has said does not count";
  EXPECT_EQ(rank_->traffic().received_bytes, FrameHeaderBytes().size() + payload_.size());
}

TEST_F(WaitingRank, RefusesAnotherOperationInThePlaceOfItsOwn) {
  FrameHeader other = answer();
  ++other.operation.mark;
  send_frame(other, {});
  const auto refused = result();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::malformed);
  EXPECT_EQ(refused.error().context,
            "rank 1: carries out something else than all_reduce over ring about bucket 2 of version 4, part 1");
  FrameHeader told = read_frame();
  while (told.kind == FrameKind::waits) told = read_frame();  // as it says again after each second
  EXPECT_EQ(told.kind, FrameKind::disagrees);
  EXPECT_EQ(told.message_bytes, 1U) << "rank 1 with rank 0";
  EXPECT_EQ(told.subject, subject);
}

TEST_F(WaitingRank, RefusesThatTheOtherHasGoneOn) {
  FrameHeader ahead = answer();
  ++ahead.operation.number;
  send_frame(ahead, {});
  EXPECT_EQ(result().error().code, Errc::malformed);
}

TEST_F(WaitingRank, RefusesAMessageOfAnotherOperation) {
  FrameHeader header = header_for(payload_);
  header.operation = waits_.operation;
  ++header.operation.mark;
  send_frame(header, payload_);
  EXPECT_EQ(result().error().code, Errc::malformed);
}

TEST_F(WaitingRank, RefusesToWaitWithAPayload) {
  FrameHeader header = answer();
  header.frame_bytes = 1;
  send_frame(header, {});
  EXPECT_EQ(result().error().code, Errc::malformed);
}

TEST(FrameHeader, ReadsWhatItWrote) {
  const FrameHeader header{FrameKind::goodbye, 3, 4, 12, 13, {.version = 7, .bucket = 8, .part = 9}, 5, 6, {10, 11}};
  const auto read = decode(encode(header, digest_of({})));
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, header);
}

}  // namespace
}  // namespace weir::collectives
