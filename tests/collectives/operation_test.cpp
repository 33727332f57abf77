#include "collectives/operation.hpp"

#include <gtest/gtest.h>

#include "base/errc.hpp"

namespace weir::collectives {
namespace {

constexpr Operation sum{
    .name = "all_reduce", .over = "ring", .bytes = 400, .about = {.version = 17, .bucket = 3, .part = 0}};

OperationLog log_of(const Operation& operation) {
  OperationLog log;
  log.begin(operation);
  return log;
}

TEST(OperationLog, WhatIsOutsideOfOperationsHasNoTag) {
  OperationLog log;
  EXPECT_EQ(log.tag(), OperationTag());
  log.begin(sum);
  EXPECT_NE(log.tag(), OperationTag());
  log.end();
  EXPECT_EQ(log.tag(), OperationTag());
  EXPECT_EQ(log.last().number, 1);
}

TEST(OperationLog, RefusesAMessageThatDiffersInAnything) {
  OperationLog log = log_of(sum);
  EXPECT_TRUE(log.expect(log_of(sum).tag()));
  EXPECT_TRUE(log.expect(OperationTag())) << "of no operation";
  std::vector<Operation> others(6, sum);
  others[0].name = "broadcast";
  others[1].over = "tree";
  others[2].options = 1;
  others[3].bytes = 404;
  others[4].about.bucket = 4;
  others[5].about.version = 18;
  for (const Operation& other : others) {
    const auto refused = log.expect(log_of(other).tag());
    ASSERT_FALSE(refused) << to_string(other);
    EXPECT_EQ(refused.error().code, Errc::malformed);
    EXPECT_EQ(refused.error().context,
              "carries out something else than all_reduce of 400 bytes over ring about bucket 3 of version 17, part 0");
    EXPECT_FALSE(log.compare(log_of(other).last(), false));
    EXPECT_FALSE(log.expect_later(log_of(other).tag()));
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
    ASSERT_NE(ahead.tag().number, 0) << "is for none";
    ASSERT_TRUE(behind.compare(ahead.last(), /*waited_for=*/false));
    ASSERT_FALSE(behind.compare(ahead.last(), /*waited_for=*/true)) << "it will not send any more";
    ASSERT_TRUE(ahead.compare(behind.last(), /*waited_for=*/true)) << "it is slow";
    ASSERT_TRUE(behind.expect_later(ahead.tag())) << "for the next operation";
    ASSERT_FALSE(ahead.expect_later(behind.tag())) << "left over";
  }
}

}  // namespace
}  // namespace weir::collectives
