#include "collectives/operation.hpp"

#include <gtest/gtest.h>

#include "base/errc.hpp"

namespace weir::collectives {
namespace {

constexpr Operation sum{
    .name = "all_reduce", .over = "ring", .bytes = 400, .about = {.version = 17, .bucket = 3, .part = 0}};

constexpr std::uint32_t peer = 3;

OperationLog log_of(const Operation& operation) {
  OperationLog log;
  log.begin(operation);
  return log;
}

TEST(OperationLog, WhatIsOutsideOfOperationsHasNoTag) {
  OperationLog log;
  EXPECT_EQ(log.tag(peer), OperationTag());
  log.begin(sum);
  EXPECT_NE(log.tag(peer), OperationTag());
  log.end();
  EXPECT_EQ(log.tag(peer), OperationTag());
  EXPECT_EQ(log.last(peer).number, 1);
}

TEST(OperationLog, RefusesAMessageThatDiffersInAnything) {
  OperationLog log = log_of(sum);
  EXPECT_TRUE(log.expect(peer, log_of(sum).tag(peer)));
  EXPECT_TRUE(log.expect(peer, OperationTag())) << "of no operation";
  std::vector<Operation> others(6, sum);
  others[0].name = "broadcast";
  others[1].over = "tree";
  others[2].options = 1;
  others[3].bytes = 404;
  others[4].about.bucket = 4;
  others[5].about.version = 18;
  for (const Operation& other : others) {
    const auto refused = log.expect(peer, log_of(other).tag(peer));
    ASSERT_FALSE(refused) << to_string(other);
    EXPECT_EQ(refused.error().code, Errc::malformed);
    EXPECT_EQ(refused.error().context,
              "carries out something else than all_reduce of 400 bytes over ring about bucket 3 of version 17, part 0");
    EXPECT_FALSE(log.compare(peer, log_of(other).last(peer), false));
    EXPECT_FALSE(log.expect_later(peer, log_of(other).tag(peer)));
  }
}

TEST(OperationLog, OthersMayBeAheadUnlessTheyAreWaitedFor) {
  // Also where the numbers begin again.
  OperationLog behind;
  OperationLog ahead;
  ahead.begin(sum);
  for (int i = 0; i < 70'000; ++i) {
    behind.begin(sum);
    ahead.begin(sum);
    ASSERT_NE(ahead.tag(peer).number, 0) << "is for none";
    ASSERT_TRUE(behind.compare(peer, ahead.last(peer), /*waited_for=*/false));
    ASSERT_FALSE(behind.compare(peer, ahead.last(peer), /*waited_for=*/true)) << "it will not send any more";
    ASSERT_TRUE(ahead.compare(peer, behind.last(peer), /*waited_for=*/true)) << "it is slow";
    ASSERT_TRUE(behind.expect_later(peer, ahead.tag(peer))) << "for the next operation";
    ASSERT_FALSE(ahead.expect_later(peer, behind.tag(peer))) << "left over";
  }
}

TEST(OperationLog, OperationsOfAPartAreThoseOfItsMembersAlone) {
  // Ranks 3 and 5 are in the part, rank 4 is not.
  const std::uint32_t members[] = {3, 5};
  OperationLog log = log_of(sum);
  log.end();
  Operation part = sum;
  part.over = "tree";
  log.begin_part(part, members);
  EXPECT_EQ(log.tag(4), OperationTag()) << "nothing is under way with it";
  EXPECT_EQ(log.last(4).number, 1);
  EXPECT_EQ(log.tag(3).number, 2);
  EXPECT_EQ(log.tag(3), log.tag(5));
  OperationLog other = log_of(sum);
  other.end();
  other.begin_part(sum, members);
  EXPECT_FALSE(other.expect(3, log.tag(5)));
  log.end_part(members);
  EXPECT_EQ(log.tag(3), OperationTag());
  log.begin(sum);
  EXPECT_EQ(log.tag(3).number, 3);
  EXPECT_EQ(log.tag(4).number, 2);
  EXPECT_EQ(log.tag(3).mark, log.tag(4).mark);
}

}  // namespace
}  // namespace weir::collectives
