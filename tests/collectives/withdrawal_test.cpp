// Messages that are given up: sends and receives that are destroyed before their end.

#include <optional>

#include "base/errc.hpp"
#include "tests/collectives/group.hpp"

namespace weir::collectives {
namespace {

using namespace testing;

class Withdrawals : public ::testing::TestWithParam<Transport> {
 protected:
  std::unique_ptr<Ranks> make(std::uint32_t size) const { return GetParam().make(size, Loss::ends_the_group); }
};
INSTANTIATE_TEST_SUITE_P(Transports, Withdrawals, ::testing::ValuesIn(transports), transport_name);

constexpr Subject first{.version = 1, .bucket = 2, .part = 0};
constexpr Subject second{.version = 1, .bucket = 3, .part = 0};
constexpr Subject go{.version = 1, .bucket = 4, .part = 0};
constexpr std::size_t length = 3 * Communicator::piece_bytes_max;

Task<> receive(Communicator& group, std::uint32_t from, Subject about, Receiver& receiver) {
  Receive arrival(group, from, about, receiver);
  co_return co_await arrival;
}

/// Keeps a message, and lets another one go when the first piece has arrived.
class Announce final : public Receiver {
 public:
  explicit Announce(Send& told) : told_(told) {}
  Result<void> begin(std::uint64_t) override { return {}; }
  std::span<std::byte> place(std::uint64_t offset, std::size_t size) override {
    return std::span(into_).subspan(offset, size);
  }
  void progressed(std::uint64_t, const std::optional<PieceDigest>&) override { told_.release(1); }

 private:
  Send& told_;
  Bytes into_ = Bytes(length);
};

void expect_given_up(const std::vector<Result<void>>& results, std::uint32_t culprit) {
  for (std::uint32_t rank = 0; rank < results.size(); ++rank) {
    ASSERT_FALSE(results[rank]) << "rank " << rank;
    const Error& error = results[rank].error();
    if (rank == culprit) {
      EXPECT_EQ(error.code, Errc::cancelled) << error.message();
      EXPECT_EQ(error.context, "a message was given up half-way");
    } else {
      EXPECT_EQ(error.code, Errc::malformed) << "rank " << rank << ": " << error.message();
      EXPECT_EQ(error.context, "rank " + std::to_string(culprit) + " has given up bucket 2 of version 1, part 0");
    }
  }
}

TEST_P(Withdrawals, BeforeTheFirstByteDisturbNobody) {
  const auto ranks = make(2);
  const auto results = ranks->run([](Communicator& group) -> Task<> {
    const std::uint32_t other = 1 - group.rank();
    const Bytes message(100, std::byte{7});
    Keep keep;
    {
      // Nothing of it is ready, so nothing of it was sent.
      Send never(group, other, first, message, 0);
      Receive neither(group, other, first, keep);
    }
    co_return co_await exchange(group, other, message, other, keep);
  });
  for (const auto& result : results) EXPECT_TRUE(result) << result.error().message();
}

TEST_P(Withdrawals, OfAReceiveInFlightEndTheGroupAndNameRankAndBucket) {
  const auto ranks = make(3);
  const auto results = ranks->run([](Communicator& group) -> Task<> {
    const Bytes message(length, std::byte{7});
    const Bytes told(1);
    Keep keep;
    if (group.rank() == 2) co_return co_await receive(group, 1, second, keep);
    if (group.rank() == 0) {
      Send cut(group, 1, first, message);
      if (auto announced = co_await receive(group, 1, go, keep); !announced) co_return announced.error();
      co_return co_await receive(group, 1, second, keep);
    }
    Send announced(group, 0, go, told, 0);
    {
      Announce half(announced);
      Receive arrival(group, 0, first, half, Communicator::piece_bytes_max);
      if (auto sent = co_await announced; !sent) co_return sent.error();
    }
    co_return co_await receive(group, 2, second, keep);
  });
  expect_given_up(results, 1);
}

TEST_P(Withdrawals, OfASendInFlightEndTheGroupAndNameRankAndBucket) {
  const auto ranks = make(3);
  const auto results = ranks->run([](Communicator& group) -> Task<> {
    const Bytes message(length, std::byte{7});
    const Bytes told(1);
    Keep keep;
    if (group.rank() == 2) co_return co_await receive(group, 1, second, keep);
    if (group.rank() == 1) {
      Send announced(group, 0, go, told, 0);
      Announce half(announced);
      co_return co_await receive(group, 0, first, half);
    }
    {
      Send cut(group, 1, first, message, Communicator::piece_bytes_max);
      if (auto announced = co_await receive(group, 1, go, keep); !announced) co_return announced.error();
    }
    co_return co_await receive(group, 1, second, keep);
  });
  expect_given_up(results, 0);
}

}  // namespace
}  // namespace weir::collectives
