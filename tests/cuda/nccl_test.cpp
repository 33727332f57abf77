#include "cuda/nccl.hpp"

#include <algorithm>
#include <future>

#include "base/errc.hpp"
#include "cuda/event.hpp"
#include "tests/cuda/nccl_ranks.hpp"

// What NCCL does between the ranks of a group, by a fake of it on the emulated device.

namespace weir::cuda {
namespace {

using namespace testing;

/// Of so many ranks, and whose streams come first: the callers', which are newer than NCCL's, or NCCL's.
class NcclTest : public ::testing::TestWithParam<std::tuple<std::uint32_t, emulator::Order>> {
 protected:
  std::unique_ptr<NcclRanks> make() {
    const auto& [size, first] = GetParam();
    auto ranks = std::make_unique<NcclRanks>(size, std::vector<std::string>{WEIR_FAKE_NCCL_LIBRARY}, first);
    if (!ranks->join()) ADD_FAILURE() << ranks->joined(0).error().message();
    return ranks;
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, NcclTest,
                         ::testing::Combine(::testing::Values(1U, 2U, 3U, 4U),
                                            ::testing::Values(emulator::Order::newest, emulator::Order::oldest,
                                                              emulator::Order::any)));

TEST_P(NcclTest, KeepsItsPromises) {
  const auto ranks = make();
  ranks->run(keeps_its_promises);
  ranks->close();
  EXPECT_EQ(fake().communicators, 0);
}

/// Holds up the stream until all ranks have put the next operation into theirs, and for a while longer.
void hold_up(StreamHandle stream, int operations) {
  emulator::enqueue(
      stream, [operations, attempts = 0]() mutable { return fake().operations >= operations && ++attempts > 100; });
}

/// The caller's stream writes the values long after the operation has begun.
TEST_P(NcclTest, BeginsAfterWhatTheStreamHasToDoBefore) {
  const auto ranks = make();
  constexpr std::size_t count = 100;
  const int before = fake().operations;
  ranks->run([&](const OneRank& rank) {
    const OnDevice<float> values(rank, std::vector<float>(count, -1000));  // noise
    const Buffer buffer = values.buffer(Element::float32);
    const auto stream = static_cast<StreamHandle>(buffer.device.stream);
    for (int round = 0; round < 20; ++round) {
      hold_up(stream, before + (round + 1) * static_cast<int>(rank.ranks()));
      const std::vector<float> own(count, static_cast<float>(rank.rank() + 1));
      const Memory gradient = Memory::allocate(count * sizeof(float)).value();
      gradient.copy_from_host(std::as_bytes(std::span(own)), stream).value();
      copy_bytes({gradient.data(), gradient.size()}, buffer.bytes.data(), stream).value();
      expect_done(rank.run([&] { return rank.nccl.all_reduce(buffer, ReduceOp::sum, Subject()); }));
      const auto ranks_sum = static_cast<float>(rank.ranks() * (rank.ranks() + 1) / 2);
      ASSERT_EQ(values.read(), std::vector<float>(count, ranks_sum)) << "round " << round;
    }
  });
  ranks->close();
}

TEST(NcclStreams, WhatComesLaterInTheCallersStreamWaitsForTheResult) {
  NcclRanks ranks(1, {WEIR_FAKE_NCCL_LIBRARY}, emulator::Order::newest);
  ASSERT_TRUE(ranks.join());
  const OneRank rank{ranks.fabric(0), ranks.nccl(0)};
  const OnDevice<float> values(rank, {8});
  const Buffer buffer = values.buffer(Element::float32);
  const auto stream = static_cast<StreamHandle>(buffer.device.stream);
  const int operations = fake().operations;
  fake().hanging_rank = 0;
  auto reducing = std::async(std::launch::async, [&] {
    return rank.run([&] { return rank.nccl.all_reduce(buffer, ReduceOp::sum, Subject()); });
  });
  while (fake().operations == operations) std::this_thread::yield();
  rank.fabric.thread().call([] {});  // the turn in which the loop saw that has ended
  const Event later = Event::make_untimed().value();
  later.record(stream).value();
  int early = 0;
  for (int i = 0; i < 100; ++i) early += later.reached().value();
  fake().hanging_rank = -1;
  EXPECT_EQ(early, 0);
  expect_done(reducing.get());
  later.wait().value();
  ranks.close();
}

/// Each rank has the operation fail in its own way.
void expect_failures(NcclRanks& ranks, const std::function<Task<>(const OneRank& rank)>& body, Errc at_least_one) {
  std::vector<Result<void>> results(ranks.size());
  ranks.run([&](const OneRank& rank) { results[rank.rank()] = rank.run([&] { return body(rank); }); });
  EXPECT_TRUE(std::ranges::any_of(results, [&](const auto& r) { return !r && r.error().code == at_least_one; }));
  for (const auto& result : results) EXPECT_FALSE(result);
}

/// All operations in turn on what is in the host's memory; ranks may have theirs in different places.
TEST_P(NcclTest, TakesNumbersOfTheHostThroughItsGpu) {
  const auto ranks = make();
  ranks->run([](const OneRank& rank) {
    const std::uint32_t count = rank.ranks();
    const auto sum = static_cast<float>(count * (count + 1) / 2);
    const bool on_host = rank.rank() % 2 == 0;
    for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{500'000}}) {
      std::vector<float> values(length, static_cast<float>(rank.rank() + 1));
      const OnDevice<float> above(rank, values);
      const Buffer here = collectives::testing::buffer_of(values, Element::float32);
      const Buffer buffer = on_host ? here : above.buffer(Element::float32);
      expect_done(rank.run([&] { return rank.nccl.all_reduce(buffer, ReduceOp::sum, Subject()); }));
      ASSERT_EQ(on_host ? values : above.read(), std::vector<float>(length, sum));
      expect_done(rank.run([&] { return rank.nccl.all_reduce(here, ReduceOp::max, Subject()); }));
      ASSERT_EQ(values, std::vector<float>(length, count == 1 ? 1 : sum));
      std::ranges::fill(values, static_cast<float>(rank.rank()));
      expect_done(rank.run([&] { return rank.nccl.reduce_scatter(here, ReduceOp::sum, Subject()); }));
      const Buffer own = chunk_of(here, count, rank.rank());
      const auto offset = (own.bytes.data() - here.bytes.data()) / static_cast<std::ptrdiff_t>(sizeof(float));
      for (std::size_t i = 0; i < own.count(); ++i) {
        ASSERT_EQ(values[static_cast<std::size_t>(offset) + i], sum - static_cast<float>(count));
      }
      std::ranges::fill(values, static_cast<float>(rank.rank()));
      expect_done(rank.run([&] { return rank.nccl.broadcast(here, count - 1, Subject()); }));
      ASSERT_EQ(values, std::vector<float>(length, static_cast<float>(count - 1)));
    }
  });
  ranks->close();
}

TEST(NcclTraffic, IsThatOfARing) {
  NcclRanks ranks(3);
  ASSERT_TRUE(ranks.join());
  ranks.run([](const OneRank& rank) {
    const std::uint32_t next = (rank.rank() + 1) % 3;
    const std::uint32_t before = (rank.rank() + 2) % 3;
    const auto carried = [&](const std::function<Task<>()>& operation) {
      const auto sent = rank.fabric.traffic_with(next).sent_bytes;
      const auto received = rank.fabric.traffic_with(before).received_bytes;
      expect_done(rank.run(operation));
      return std::pair(rank.fabric.traffic_with(next).sent_bytes - sent,
                       rank.fabric.traffic_with(before).received_bytes - received);
    };
    const auto expect_about = [](const std::pair<std::uint64_t, std::uint64_t>& carried, std::uint64_t bytes) {
      for (const std::uint64_t counted : {carried.first, carried.second}) {
        EXPECT_GE(counted, bytes);
        EXPECT_LT(counted, bytes + 1000) << "beside the messages by which ranks meet";
      }
    };
    std::vector<float> values(30'000);
    const Buffer buffer = collectives::testing::buffer_of(values, Element::float32);
    expect_about(carried([&] { return rank.nccl.all_reduce(buffer, ReduceOp::sum, Subject()); }), 160'000);
    expect_about(carried([&] { return rank.nccl.reduce_scatter(buffer, ReduceOp::sum, Subject()); }), 80'000);
    Gathered gathered{.payloads = {}, .bytes_max = 120'000};
    expect_about(carried([&] { return rank.nccl.all_gather(buffer, gathered, Subject()); }), 240'000);
    const std::vector<ConstBuffer> outgoing(3, buffer);
    expect_about(carried([&] { return rank.nccl.all_to_all(outgoing, gathered, Subject()); }), 120'000);
  });
  ranks.close();
}

TEST(NcclRefuses, ValuesInTheMemoryOfAnotherGpu) {
  NcclRanks ranks(2);
  ASSERT_TRUE(ranks.join());
  std::vector<float> values(10);
  expect_failures(
      ranks,
      [&](const OneRank& rank) {
        Buffer buffer = collectives::testing::buffer_of(values, Element::float32);
        buffer.device.gpu = 1;
        return rank.nccl.all_reduce(buffer, ReduceOp::sum, Subject());
      },
      Errc::unsupported);
}

TEST(NcclRefuses, AMajority) {
  NcclRanks ranks(2);
  ASSERT_TRUE(ranks.join());
  expect_failures(
      ranks, [](const OneRank& rank) { return rank.nccl.all_reduce(Buffer(), ReduceOp::majority, Subject()); },
      Errc::unsupported);
}

TEST(NcclRefuses, APayloadAboveTheLimit) {
  NcclRanks ranks(2);
  ASSERT_TRUE(ranks.join());
  std::vector<Gathered> gathered(2);
  gathered[0].bytes_max = 1000;
  gathered[1].bytes_max = 10'000;
  const Bytes longer(5000, std::byte{1});
  std::vector<Result<void>> results(2);
  ranks.run([&](const OneRank& rank) {
    const BytesView own = rank.rank() == 0 ? BytesView() : BytesView(longer);
    results[rank.rank()] = rank.run([&] { return rank.nccl.all_gather(own, gathered[rank.rank()], Subject()); });
  });
  ASSERT_FALSE(results[0]);
  EXPECT_EQ(results[0].error().code, Errc::malformed);
  EXPECT_EQ(results[0].error().context, "rank 1: a payload of 5000 bytes where at most 1000 can be");
  EXPECT_FALSE(results[1]);
}

TEST(NcclRefuses, RanksThatDoNotAgree) {
  NcclRanks ranks(3);
  ASSERT_TRUE(ranks.join());
  const auto before = fake().operations.load();
  std::vector<Result<void>> results(3);
  ranks.run([&](const OneRank& rank) {
    const OnDevice<float> values(rank, std::vector<float>(rank.rank() == 1 ? 11 : 10));
    results[rank.rank()] = rank.run([&] {
      return rank.nccl.all_reduce(values.buffer(Element::float32), ReduceOp::sum, {.version = 3, .bucket = 7});
    });
  });
  for (const auto& result : results) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Errc::malformed) << result.error().message();
    EXPECT_NE(result.error().context.find("bucket 7 of version 3"), std::string::npos) << result.error().context;
  }
  EXPECT_EQ(fake().operations, before) << "nothing was begun on a GPU";
}

}  // namespace
}  // namespace weir::cuda
