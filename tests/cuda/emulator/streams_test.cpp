#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "cuda/event.hpp"
#include "cuda/memory.hpp"
#include "cuda/pinned_memory.hpp"
#include "tests/cuda/emulator/emulator.hpp"

// That a test which defers work sees what a device would do where one stream does not wait for another.

namespace weir::cuda {
namespace {

/// Bytes that one stream fills with ones, and that a newer one copies.
class StreamsTest : public testing::Test {
 protected:
  /// What the newer stream has copied. It waits for the older one or not.
  int copied(bool waits) {
    from.fill(std::byte{0}, first.handle()).value();
    first.wait().value();
    from.fill(std::byte{1}, first.handle()).value();
    const Event filled = Event::make_untimed().value();
    filled.record(first.handle()).value();
    if (waits) filled.hold_back(second.handle()).value();
    copy_bytes({from.data(), from.size()}, to.bytes().data(), second.handle()).value();
    const Event copied = Event::make_untimed().value();
    copied.record(second.handle()).value();
    while (!copied.reached().value()) {
    }
    const int value = std::to_integer<int>(to.bytes()[7]);
    first.wait().value();
    return value;
  }

  const Memory from = Memory::allocate(8).value();
  const PinnedMemory to = PinnedMemory::allocate(8).value();
  const Stream first = Stream::make().value();
  const Stream second = Stream::make().value();
};

TEST_F(StreamsTest, WorkIsDoneAtOnceUnlessItIsDeferred) {
  EXPECT_EQ(copied(false), 1);
  EXPECT_EQ(copied(true), 1);
}

TEST_F(StreamsTest, DeferredWorkOvertakesWhatItDoesNotWaitFor) {
  const emulator::Deferred deferred(emulator::Order::newest);
  EXPECT_EQ(copied(false), 0);
  EXPECT_EQ(copied(true), 1);
}

TEST_F(StreamsTest, DeferredWorkKeepsTheOrderOfTheStreamsIfTheOldestComesFirst) {
  const emulator::Deferred deferred(emulator::Order::oldest);
  EXPECT_EQ(copied(false), 1);
  EXPECT_EQ(copied(true), 1);
}

TEST_F(StreamsTest, DeferredWorkInAnyOrderDoesSoSometimes) {
  const emulator::Deferred deferred(emulator::Order::any);
  int sum = 0;
  for (int i = 0; i < 50; ++i) {
    sum += copied(false);
    ASSERT_EQ(copied(true), 1);
  }
  EXPECT_GT(sum, 0);
  EXPECT_LT(sum, 50);
}

TEST_F(StreamsTest, OnlyWhatIsNeededIsDoneIfThatComesFirst) {
  const emulator::Deferred deferred(emulator::Order::needed);
  EXPECT_EQ(copied(false), 0);
  EXPECT_EQ(copied(true), 1);
  from.fill(std::byte{2}, first.handle()).value();
  copy_bytes({from.data(), from.size()}, to.bytes().data(), first.handle()).value();
  second.wait().value();
  EXPECT_EQ(to.bytes()[7], std::byte{1}) << "nobody has waited for the first stream";
  first.wait().value();
  EXPECT_EQ(to.bytes()[7], std::byte{2});
}

TEST_F(StreamsTest, BytesThatCrossAreCounted) {
  const auto down_before = emulator::bytes_to_host();
  const auto up_before = emulator::bytes_to_device();
  copy_bytes({from.data(), from.size()}, to.bytes().data(), first.handle()).value();
  copy_bytes(to.bytes(), from.data(), first.handle()).value();
  copy_bytes(to.bytes().first(3), from.data(), first.handle()).value();
  EXPECT_EQ(emulator::bytes_to_host() - down_before, 8U);
  EXPECT_EQ(emulator::bytes_to_device() - up_before, 11U);
}

TEST_F(StreamsTest, AnEventIsReachedOnlyAfterTheWorkBeforeIt) {
  const emulator::Deferred deferred(emulator::Order::newest);
  const Event event = Event::make_untimed().value();
  EXPECT_TRUE(event.reached().value()) << "it was never recorded";
  from.fill(std::byte{1}, first.handle()).value();
  event.record(first.handle()).value();
  EXPECT_FALSE(event.reached().value());
  EXPECT_TRUE(event.reached().value()) << "asking for it lets the device go on";
}

TEST_F(StreamsTest, CopiesOfPageableMemoryWaitAndThoseOfPinnedMemoryDoNot) {
  const emulator::Deferred deferred(emulator::Order::newest);
  from.fill(std::byte{3}, first.handle()).value();
  const auto before = emulator::waits_of_this_thread();
  copy_bytes({from.data(), from.size()}, to.bytes().data(), first.handle()).value();
  EXPECT_EQ(emulator::waits_of_this_thread(), before);
  std::array<std::byte, 8> pageable{};
  from.copy_to_host(pageable, first.handle()).value();
  EXPECT_EQ(pageable[0], std::byte{3});
  EXPECT_GT(emulator::waits_of_this_thread(), before);
}

}  // namespace
}  // namespace weir::cuda
