#include "cluster/node_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cluster/bare_table.hpp"

namespace weir::cluster {
namespace {

using namespace std::chrono_literals;
using testing::IsEmpty;
using testing::SizeIs;

/// A table with one node, whose first heartbeat has just come.
class NodeTableTest : public testing::Test {
 protected:
  void SetUp() override {
    protocol::NodeInfo info;
    info.name = "a";
    info.incarnation = 1;
    info.resources = {{"cpu", 1}};
    node_ = table_.join(std::move(info), {}).value();
    beat();
  }

  void beat() { ASSERT_TRUE(bare_.beat(node_->record)); }

  BareTable bare_;
  runtime::testing::Simulation& simulation_ = bare_.simulation;
  NodeTable& table_ = bare_.nodes;
  NodeTable::Node* node_ = nullptr;
};

TEST_F(NodeTableTest, ANodeIsSilentForTooLongAfterItsLease) {
  simulation_.pass(std::chrono::milliseconds(NodeTable::lease_milliseconds));
  EXPECT_THAT(table_.silent(0s), IsEmpty());
  simulation_.pass(1ms);
  EXPECT_THAT(table_.silent(0s), SizeIs(1));
}

TEST_F(NodeTableTest, TimeInWhichTheHeadDidNotRunIsNobodysSilence) {
  simulation_.pass(60s);
  EXPECT_THAT(table_.silent(59s), IsEmpty());
  EXPECT_THAT(table_.offers(), SizeIs(1)) << "and jobs may be placed on it";
  simulation_.pass(9s);
  EXPECT_THAT(table_.silent(0s), IsEmpty());
  simulation_.pass(1ms);
  EXPECT_THAT(table_.silent(0s), SizeIs(1)) << "10 s of its own";
}

TEST_F(NodeTableTest, NothingIsPlacedOnANodeThatMissesHeartbeats) {
  simulation_.pass(2s + 1ms);
  EXPECT_THAT(table_.silent(0s), IsEmpty());
  EXPECT_THAT(table_.offers(), IsEmpty());
  beat();
  EXPECT_THAT(table_.offers(), SizeIs(1));
}

}  // namespace
}  // namespace weir::cluster
