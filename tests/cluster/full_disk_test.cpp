// What the head does while its store takes no commits.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "base/errc.hpp"
#include "tests/cluster/fake_cluster.hpp"

namespace weir::cluster {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::SizeIs;

const auto all = [](const std::vector<Change>&) { return true; };

TEST(FullDisk, ADrainThatCouldNotBeCommittedIsNone) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  cluster.store->refuse(all);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(cluster.simulation.run(cluster.head->drain("a")).error().code, Errc::exhausted);
    EXPECT_EQ(cluster.node("a").state, NodeState::alive);
  }
  cluster.store->accept();
  EXPECT_EQ(cluster.await_end(cluster.submit_job(1)).state, JobState::succeeded);
  EXPECT_EQ(cluster.simulation.run(cluster.head->drain("a"))->state, NodeState::draining);
  EXPECT_EQ(cluster.simulation.run(cluster.head->drain("a"))->state, NodeState::draining);
  const auto events = cluster.simulation.run(cluster.head->events({.job_id = {}, .limit = 1000}))->events;
  EXPECT_EQ(std::ranges::count(events, "node.draining", &EventRecord::kind), 1) << "a repeat is no event";
}

TEST(FullDisk, CheckpointsThatCouldNotBePrunedArePrunedWithTheNextOne) {
  FakeCluster cluster;
  cluster.add_node("a", 2);
  cluster.script.checkpoint_every = 2;
  cluster.store->refuse([](const std::vector<Change>& changes) {  // the disk is full at step 6, where step 2 is to go
    return std::ranges::any_of(changes, [](const Change& one) {
      const auto* added = std::get_if<change::AddCheckpoint>(&one);
      return added != nullptr && added->checkpoint.step == 6;
    });
  });
  const auto id = cluster.submit_job(2, {{"checkpoint", {{"keep", 2}}}});
  cluster.await_end(id);
  const auto checkpoints = cluster.simulation.run(cluster.head->checkpoints(id)).value();
  ASSERT_THAT(checkpoints, SizeIs(2));
  EXPECT_EQ(checkpoints[0].step, 8u);
  const auto dir = cluster.simulation.run(cluster.head->checkpoint_path(id, 10)).value().parent_path();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir), {}), 2);
}

TEST(FullDisk, AStoreThatRefusesIsAskedAgainAfterASecond) {
  FakeCluster cluster;
  const auto health = [&] { return cluster.simulation.run(cluster.head->health()).value(); };
  EXPECT_TRUE(health().store_writable);
  cluster.store->refuse(all);
  const auto before = cluster.store->commits().size();
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(health().store_writable);
  EXPECT_THAT(health().detail, HasSubstr("the disk is full"));
  EXPECT_EQ(cluster.store->commits().size(), before + 1);
  cluster.store->accept();
  cluster.simulation.pass(1s);
  EXPECT_TRUE(health().store_writable);
}

}  // namespace
}  // namespace weir::cluster
