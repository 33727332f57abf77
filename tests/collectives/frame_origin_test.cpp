// Frames that belong to another rank, lane or version, or are of another length than is due.

#include <array>
#include <string>
#include <thread>

#include "base/errc.hpp"
#include "collectives/transports/frame.hpp"
#include "collectives/transports/stream_communicator.hpp"
#include "tests/collectives/group.hpp"
#include "tests/collectives/streams.hpp"

namespace weir::collectives {
namespace {

using namespace testing;

constexpr std::uint64_t attempt = 9;
constexpr Subject subject{.version = 4, .bucket = 2, .part = 1};

class FrameOrigin : public ::testing::TestWithParam<Connection (*)()> {
 protected:
  /// What rank 0 makes of a frame that its peer writes.
  Result<void> receive(const FrameHeaderBytes& header, BytesView payload) const {
    Connection connection = GetParam()();
    std::vector<std::vector<std::unique_ptr<Stream>>> lanes(1);
    lanes[0].push_back(nullptr);
    lanes[0].push_back(std::move(connection[0]));
    const auto rank = stream_fabric({.rank = 0, .attempt = attempt}, std::move(lanes));
    Bytes all;
    append(all, header);
    append(all, payload);
    const iovec part{all.data(), all.size()};
    EXPECT_EQ(connection[1]->write(std::span(&part, 1)).value(), all.size());
    return rank->thread().run([&]() -> Task<> {
      Keep keep;
      Receive arrival(rank->lane(0), 1, subject, keep);
      co_return co_await arrival;
    });
  }

  const Bytes payload_ = Bytes(100, std::byte{5});
  const FrameHeader right_{.attempt = attempt,
                           .from = 1,
                           .lane = 0,
                           .subject = subject,
                           .message_bytes = payload_.size(),
                           .frame_bytes = static_cast<std::uint32_t>(payload_.size())};
};
INSTANTIATE_TEST_SUITE_P(Streams, FrameOrigin, ::testing::Values(over_sockets, over_shared_memory),
                         [](const auto& info) { return info.index == 0 ? "sockets" : "shared_memory"; });

void expect_refused(const Result<void>& result, Errc code, const std::string& why) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, code) << result.error().message();
  EXPECT_EQ(result.error().context, "rank 1: " + to_string(subject) + ": " + why);
}

TEST_P(FrameOrigin, IsThatOfTheConnection) {
  // Within one host a checksum is that of the header alone.
  const bool sums = GetParam() == &over_sockets;
  const auto written = [&](const FrameHeader& header) {
    return encode(header, digest_of(sums ? BytesView(payload_) : BytesView()));
  };
  EXPECT_TRUE(receive(written(right_), payload_));
  FrameHeader header = right_;
  header.from = 2;
  expect_refused(receive(written(header), payload_), Errc::malformed,
                 "a frame of rank 2 in lane 0 where those of rank 1 in lane 0 are due");
  header = right_;
  header.lane = 1;
  expect_refused(receive(written(header), payload_), Errc::malformed,
                 "a frame of rank 1 in lane 1 where those of rank 1 in lane 0 are due");
  header = right_;
  header.attempt = 8;
  expect_refused(receive(written(header), payload_), Errc::malformed, "a frame of attempt 8 in attempt 9");
  FrameHeaderBytes older = written(right_);
  older[4] = std::byte{3};
  expect_refused(receive(older, payload_), Errc::unsupported, "gradient frame of version 3");
  for (const std::uint32_t bytes : {99U, 101U, 0U}) {
    header = right_;
    header.frame_bytes = bytes;
    expect_refused(receive(written(header), payload_), Errc::malformed, "a frame that does not go on with its message");
  }
  header = right_;
  header.frame_bytes = Communicator::piece_bytes_max + 1;
  expect_refused(receive(written(header), payload_), Errc::malformed,
                 "gradient frame of " + std::to_string(header.frame_bytes) + " bytes");
  header = right_;
  header.sequence = 1;
  expect_refused(receive(written(header), payload_), Errc::malformed, "frame 1 where 0 is due");
  FrameHeaderBytes changed = written(right_);
  changed.back() ^= std::byte{1};
  expect_refused(receive(changed, payload_), Errc::malformed, "a frame whose checksum does not fit");
  header = right_;
  header.message_bytes = 65'000'000;
  header.frame_bytes = Communicator::piece_bytes_max;
  const auto too_long = receive(written(header), payload_);
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error().code, Errc::malformed);
  EXPECT_NE(too_long.error().context.find("bucket 2 of version 4"), std::string::npos) << too_long.error().context;
}

/// Two ranks with two lanes each, of which lane 0 of the one is connected with lane 1 of the other.
TEST_P(FrameOrigin, OfCrossedLanesEndsBothRanks) {
  Connection first = GetParam()();
  Connection second = GetParam()();
  std::array<std::unique_ptr<Fabric>, 2> ranks;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    std::vector<std::vector<std::unique_ptr<Stream>>> lanes(2);
    for (auto& lane : lanes) lane.resize(2);
    lanes[rank][1 - rank] = std::move(first[rank]);
    lanes[1 - rank][1 - rank] = std::move(second[rank]);
    ranks[rank] = stream_fabric({.rank = rank, .attempt = attempt}, std::move(lanes));
  }
  on_every_rank(2, [&](std::uint32_t rank) {
    const auto result = ranks[rank]->thread().run([&]() -> Task<> {
      Keep keep;
      const Bytes message(1000);
      co_return co_await exchange(ranks[rank]->lane(0), 1 - rank, message, 1 - rank, keep);
    });
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Errc::malformed) << result.error().message();
    EXPECT_NE(result.error().context.find("rank "), std::string::npos) << result.error().message();
    EXPECT_NE(result.error().context.find(to_string(Subject())), std::string::npos) << result.error().message();
  });
}

}  // namespace
}  // namespace weir::collectives
