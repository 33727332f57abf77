#include "cluster/node_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cluster/bare_table.hpp"

namespace weir::cluster {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
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

  void beat() { ASSERT_TRUE(bare_.beat(node_->record).has_value()); }

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

NodeRecord lost_node(const std::string& id, const std::string& name) {
  NodeRecord record;
  record.id = id;
  record.name = name;
  record.state = NodeState::lost;
  return record;
}

std::vector<std::string> removed(const std::vector<Change>& changes) {
  std::vector<std::string> ids;
  for (const auto& one : changes) {
    if (const auto* remove = std::get_if<change::RemoveNode>(&one)) ids.push_back(remove->id);
  }
  return ids;
}

TEST(NodeTable, KeepsTheNewestOfEachName) {
  BareTable bare;
  std::vector<NodeRecord> before{lost_node("1", "a"), lost_node("2", "b"), lost_node("3", "a")};
  EXPECT_THAT(removed(bare.nodes.recover(std::move(before))), ElementsAre("1"));
  EXPECT_EQ(bare.nodes.find("a")->record.id, "3");
  EXPECT_THAT(bare.nodes.records(), SizeIs(2));
}

TEST(NodeTable, ForgetsTheOldestOfTooManyLostNodes) {
  BareTable bare;
  std::vector<NodeRecord> before;
  for (int i = 0; i < 203; ++i) before.push_back(lost_node(std::to_string(1000 + i), "n" + std::to_string(i)));
  EXPECT_THAT(removed(bare.nodes.recover(std::move(before))), ElementsAre("1000", "1001", "1002"));
  protocol::NodeInfo info;
  info.name = "a";
  auto* node = bare.nodes.join(std::move(info), {}).value();
  EXPECT_THAT(bare.nodes.mark_lost(*node, "test"), IsEmpty()) << "it may come back";
  bare.simulation.pass(11min);
  protocol::NodeInfo next;
  next.name = "b";
  const auto id = node->record.id;
  node = bare.nodes.join(std::move(next), {}).value();
  EXPECT_THAT(bare.nodes.mark_lost(*node, "test"), ElementsAre(id)) << "201 are lost for long";
  EXPECT_THAT(bare.nodes.mark_lost(*node, "test"), IsEmpty());
}

TEST(NodeTable, ExpectsAllBackThatWereLostShortlyBeforeTheHeadStopped) {
  BareTable bare;
  std::vector<NodeRecord> before;
  for (int i = 0; i < 300; ++i) {
    before.push_back(lost_node(std::to_string(1000 + i), "n" + std::to_string(i)));
    before.back().lost_at = bare.services.now() - 1min;
  }
  EXPECT_THAT(removed(bare.nodes.recover(std::move(before))), IsEmpty());
}

TEST(NodeTable, ExpectsAllBackThatWereThereWhenTheHeadStopped) {
  BareTable bare;
  std::vector<NodeRecord> before;
  for (int i = 0; i < 300; ++i) {
    before.push_back(lost_node(std::to_string(1000 + i), "n" + std::to_string(i)));
    before.back().state = NodeState::alive;
  }
  EXPECT_THAT(removed(bare.nodes.recover(std::move(before))), IsEmpty());
  protocol::NodeInfo info;
  info.name = "a";
  auto* node = bare.nodes.join(std::move(info), {}).value();
  EXPECT_THAT(bare.nodes.mark_lost(*node, "test"), IsEmpty());
  EXPECT_THAT(bare.nodes.records(), SizeIs(301));
  bare.simulation.pass(11min);
  EXPECT_THAT(bare.nodes.mark_lost(*node, "test"), SizeIs(100));
  EXPECT_THAT(bare.nodes.records(), SizeIs(201)) << "ten minutes are enough, and one has just been lost";
}

/// The records of nodes in changes.
std::vector<NodeRecord> put(const std::vector<Change>& changes) {
  std::vector<NodeRecord> records;
  for (const auto& change : changes) {
    if (const auto* one = std::get_if<change::PutNode>(&change)) records.push_back(one->node);
  }
  return records;
}

TEST(NodeTable, AwaitsThoseThatAnEarlierStartOfTheHeadHasMissed) {
  BareTable bare;
  std::vector<NodeRecord> before{lost_node("1", "a")};
  before.back().state = NodeState::alive;
  const auto stored = put(bare.nodes.recover(std::move(before)));
  ASSERT_THAT(stored, SizeIs(1));
  ASSERT_EQ(stored[0].state, NodeState::lost);
  EXPECT_FALSE(bare.nodes.are_back());
  bare.simulation.pass(10min);
  NodeTable next(bare.services);
  EXPECT_THAT(put(next.recover(stored)), IsEmpty()) << "how long it is lost does not begin anew";
  EXPECT_FALSE(next.are_back());
  bare.simulation.pass(1ms);
  NodeTable later(bare.services);
  later.recover(stored);
  EXPECT_TRUE(later.are_back()) << "nobody expects it any more";
}

TEST(NodeTable, DoesNotAwaitANodeThatWasLostWhileTheHeadRan) {
  BareTable bare;
  std::vector<NodeRecord> before{lost_node("1", "a")};
  before.back().lost_at = bare.services.now();
  before.back().reason = "no heartbeat for 10000 ms";
  bare.nodes.recover(std::move(before));
  EXPECT_TRUE(bare.nodes.are_back());
}

TEST(NodeTable, NeverForgetsADrainedNode) {
  BareTable bare;
  std::vector<NodeRecord> before;
  for (int i = 0; i < 300; ++i) {
    before.push_back(lost_node(std::to_string(1000 + i), "n" + std::to_string(i)));
    before.back().drained = i < 10;
  }
  EXPECT_THAT(removed(bare.nodes.recover(std::move(before))), SizeIs(90)) << "200 others stay";
  protocol::NodeInfo info;
  info.name = "n3";
  EXPECT_EQ(bare.nodes.join(std::move(info), {}).value()->record.state, NodeState::draining);
}

TEST(NodeTable, ForgetsALostNodeOnRequestThoughItIsDrained) {
  BareTable bare;
  std::vector<NodeRecord> before{lost_node("1", "a")};
  before.back().drained = true;
  EXPECT_THAT(removed(bare.nodes.recover(std::move(before))), IsEmpty());
  bare.nodes.forget("none");
  bare.nodes.forget("1");
  EXPECT_THAT(bare.nodes.records(), IsEmpty());
  protocol::NodeInfo info;
  info.name = "a";
  const auto* node = bare.nodes.join(std::move(info), {}).value();
  EXPECT_EQ(node->record.state, NodeState::alive);
  EXPECT_NE(node->record.id, "1");
  bare.nodes.forget(node->record.id);
  EXPECT_THAT(bare.nodes.records(), SizeIs(1)) << "it is not lost";
}

TEST(NodeTable, DoesNotForgetLostNodesForThoseThatWereThereWhenTheHeadStopped) {
  BareTable bare;
  std::vector<NodeRecord> before;
  for (int i = 0; i < 300; ++i) {
    before.push_back(lost_node(std::to_string(1000 + i), "n" + std::to_string(i)));
    if (i >= 20) before.back().state = NodeState::alive;
  }
  EXPECT_THAT(removed(bare.nodes.recover(std::move(before))), IsEmpty());
}

/// A node with two GPUs.
class NodeTableGpuTest : public testing::Test {
 protected:
  void SetUp() override {
    protocol::NodeInfo info;
    info.name = "a";
    info.incarnation = 1;
    info.resources = {{"cpu", 8}};
    info.gpus = {{0, "GPU-aa", "NVIDIA H200", 1000}, {1, "GPU-bb", "NVIDIA H200", 1000}};
    node_ = table_.join(std::move(info), {}).value();
    beat(false);
  }

  NodeTable::Heard beat(bool second_is_lost) {
    return bare_.beat(node_->record, {{"GPU-aa", false, {.utilization = 0.5}}, {"GPU-bb", second_is_lost, {}}}).value();
  }
  std::vector<protocol::GpuShare> grant(const std::string& worker, double amount) {
    return table_.grant(node_->record.id, worker, "job", {{"gpu", amount}});
  }
  const NodeOffer& offer() const { return table_.offers().at(0); }

  BareTable bare_;
  NodeTable& table_ = bare_.nodes;
  NodeTable::Node* node_ = nullptr;
};

TEST_F(NodeTableGpuTest, BooksDevicesAndFreesThem) {
  EXPECT_EQ(node_->record.resources.at("gpu"), 2);
  EXPECT_THAT(grant("w0", 0.5), ElementsAre(protocol::GpuShare{"GPU-aa", 0.5}));
  EXPECT_THAT(grant("w1", 1), ElementsAre(protocol::GpuShare{"GPU-bb", 1}));
  EXPECT_THAT(grant("w2", 0.25), ElementsAre(protocol::GpuShare{"GPU-aa", 0.25}));
  EXPECT_THAT(grant("w3", 0), IsEmpty());
  EXPECT_THAT(offer().gpus_free, ElementsAre(0.25, 0));
  EXPECT_EQ(node_->record.used.at("gpu"), 1.75);
  table_.release(node_->record.id, "w0");
  table_.release(node_->record.id, "w1");
  EXPECT_THAT(offer().gpus_free, ElementsAre(0.75, 1));
  EXPECT_THAT(offer().gpus_total, ElementsAre(1, 1));
}

TEST_F(NodeTableGpuTest, ALostGpuIsOfferedAgainWhenItIsBack) {
  const auto growth = table_.growth();
  const auto lost = beat(true);
  ASSERT_THAT(lost.gpus_lost, SizeIs(1));
  EXPECT_EQ(lost.gpus_lost[0].uuid, "GPU-bb");
  EXPECT_FALSE(lost.offers_more);
  EXPECT_THAT(offer().gpus, ElementsAre(0));
  EXPECT_THAT(offer().gpus_lost, ElementsAre(1));
  EXPECT_EQ(offer().total.at("gpu"), 1);
  EXPECT_THAT(beat(true).gpus_lost, IsEmpty()) << "told once";
  EXPECT_EQ(table_.growth(), growth);
  const auto back = beat(false);
  EXPECT_THAT(back.gpus_back, SizeIs(1));
  EXPECT_TRUE(back.offers_more);
  EXPECT_GT(table_.growth(), growth) << "jobs set aside are looked at again";
  EXPECT_THAT(offer().gpus_total, ElementsAre(1, 1));
}

TEST_F(NodeTableGpuTest, ANodeInDoubtIsNotOfferedUntilItsNextHeartbeat) {
  table_.doubt(node_->record.id);
  EXPECT_THAT(table_.offers(), IsEmpty());
  EXPECT_TRUE(beat(true).offers_more);
  EXPECT_THAT(grant("w0", 1), ElementsAre(protocol::GpuShare{"GPU-aa", 1}));
}

TEST_F(NodeTableGpuTest, SamplesOfASilentNodeAreUnknown) {
  ASSERT_TRUE(node_->record.gpus[0].sample.utilization);
  bare_.simulation.pass(2s + 1ms);
  EXPECT_THAT(table_.silent(0s), IsEmpty());
  EXPECT_FALSE(node_->record.gpus[0].sample.utilization);
  beat(false);
  ASSERT_TRUE(node_->record.gpus[0].sample.utilization);
  table_.link_broke(*node_, "test");
  EXPECT_FALSE(node_->record.gpus[0].sample.utilization);
}

TEST_F(NodeTableGpuTest, GpusOfANodeHaveUuidsOfTheirOwn) {
  protocol::NodeInfo info;
  info.name = "b";
  info.gpus = {{0, "GPU-aa", "A", 0}, {1, "GPU-aa", "A", 0}};
  EXPECT_EQ(table_.join(info, {}).error().context,
            "GPU 1 of node b has no UUID of its own, or one or a name that is too long");
  info.gpus = {{0, "GPU-aa", std::string(1000, 'x'), 0}};
  EXPECT_FALSE(table_.join(info, {}).has_value());
}

}  // namespace
}  // namespace weir::cluster
