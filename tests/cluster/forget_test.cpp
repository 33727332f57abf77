// Lost nodes that somebody takes off the list, and what happens to them meanwhile.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/errc.hpp"
#include "tests/cluster/fake_cluster.hpp"

namespace weir::cluster {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

const auto all = [](const std::vector<Change>&) { return true; };

/// Whether they take a node out of the store.
bool remove_a_node(const std::vector<Change>& changes) {
  return std::ranges::any_of(changes,
                             [](const Change& one) { return std::holds_alternative<change::RemoveNode>(one); });
}

/// A cluster whose only node, a, was drained and is lost.
struct Lost {
  Lost() {
    cluster.add_node("a", 1);
    EXPECT_TRUE(cluster.await_node("a", NodeState::alive));
    EXPECT_TRUE(cluster.simulation.run(cluster.head->drain("a")));
    cluster.remove_node("a");
    EXPECT_TRUE(cluster.await_node("a", NodeState::lost));
    id = cluster.node("a").id;
  }

  Result<void> forget(const std::string& id_or_name) {
    return cluster.simulation.run(cluster.head->forget(id_or_name));
  }
  boost::system::error_code why_not(const std::string& id_or_name) { return forget(id_or_name).error().code; }

  /// Begins to forget the node; the answer is there when the store has answered.
  void begin_to_forget(std::optional<Result<void>>& answer) {
    net::co_spawn(cluster.simulation.executor(), cluster.head->forget("a"),
                  [&answer](const std::exception_ptr&, Result<void> forgotten) { answer = std::move(forgotten); });
    cluster.simulation.settle();
  }
  bool await(const std::optional<Result<void>>& answer) {
    return cluster.simulation.run_until([&answer] { return answer.has_value(); });
  }

  /// The ids of the nodes in the store.
  std::vector<std::string> stored() {
    std::vector<std::string> ids;
    for (const auto& node : cluster.simulation.run(cluster.store->nodes()).value()) ids.push_back(node.id);
    return ids;
  }

  /// What happened to the cluster, as kind and node.
  std::vector<std::string> happened() {
    std::vector<std::string> found;
    const auto page = cluster.simulation.run(cluster.head->events({.job_id = {}, .limit = 1000})).value();
    for (const auto& event : page.events) found.push_back(event.kind + " " + event.node);
    return found;
  }

  FakeCluster cluster;
  std::string id;
};

TEST(Forget, TakesALostNodeOffTheListForGood) {
  Lost lost;
  auto& cluster = lost.cluster;
  auto stream = cluster.simulation.run(cluster.head->subscribe(Topics::parse("cluster").value(), {})).value();
  ASSERT_TRUE(lost.forget("a"));
  EXPECT_THAT(cluster.simulation.run(cluster.head->nodes()).value(), IsEmpty());
  EXPECT_THAT(lost.stored(), IsEmpty());
  EXPECT_THAT(lost.happened(), Contains("node.forgotten a").Times(1));
  std::vector<std::string> told;
  const auto batch = cluster.simulation.run(stream->next(1ms)).value();
  for (const auto& item : batch.items) {
    if (item.kind == StreamKind::node_removed) told.push_back(item.data);
  }
  EXPECT_THAT(told, ElementsAre(R"({"id":")" + lost.id + R"("})"));
  EXPECT_EQ(lost.why_not("a"), Errc::not_found) << "it is gone";
  cluster.kill_head();
  cluster.start_head();
  EXPECT_THAT(cluster.simulation.run(cluster.head->nodes()).value(), IsEmpty());
}

TEST(Forget, ADrainedNodeThatJoinsAgainIsANewOne) {
  Lost lost;
  ASSERT_TRUE(lost.forget(lost.id));
  lost.cluster.add_node("a", 1);
  ASSERT_TRUE(lost.cluster.await_node("a", NodeState::alive));
  EXPECT_NE(lost.cluster.node("a").id, lost.id);
  EXPECT_EQ(lost.cluster.await_end(lost.cluster.submit_job(1)).state, JobState::succeeded);
}

TEST(Forget, OnlyALostNode) {
  Lost lost;
  lost.cluster.add_node("a", 1);
  lost.cluster.add_node("b", 1);
  ASSERT_TRUE(lost.cluster.await_node("a", NodeState::draining));
  ASSERT_TRUE(lost.cluster.await_node("b", NodeState::alive));
  EXPECT_EQ(lost.why_not("zzz"), Errc::not_found);
  EXPECT_EQ(lost.why_not("a"), Errc::conflict);
  const auto refused = lost.forget("b");
  EXPECT_EQ(refused.error().code, Errc::conflict);
  EXPECT_THAT(refused.error().context, AllOf(HasSubstr("node b is alive"), HasSubstr("stop its agent first")));
  EXPECT_THAT(lost.happened(), Not(Contains(HasSubstr("node.forgotten"))));
  EXPECT_THAT(lost.stored(), SizeIs(2));
}

TEST(Forget, WhatCouldNotBeCommittedHasNotHappened) {
  Lost lost;
  lost.cluster.store->refuse(all);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(lost.why_not("a"), Errc::exhausted);
  EXPECT_EQ(lost.cluster.node("a").state, NodeState::lost);
  lost.cluster.store->accept();
  EXPECT_THAT(lost.happened(), Not(Contains(HasSubstr("node.forgotten"))));
  lost.cluster.add_node("a", 1);
  ASSERT_TRUE(lost.cluster.await_node("a", NodeState::draining)) << "it is as it was";
  EXPECT_EQ(lost.cluster.node("a").id, lost.id);
}

TEST(Forget, ANodeThatJoinsMeanwhileIsANewOneAndStays) {
  Lost lost;
  auto& cluster = lost.cluster;
  std::optional<Result<void>> answer;
  cluster.store->hold(remove_a_node);
  lost.begin_to_forget(answer);
  cluster.add_node("a", 1);
  cluster.simulation.pass(1s);
  EXPECT_FALSE(answer) << "before it is committed";
  EXPECT_EQ(cluster.node("a").state, NodeState::lost);
  cluster.store->release();
  ASSERT_TRUE(lost.await(answer));
  EXPECT_TRUE(*answer);
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  const auto joined = cluster.node("a").id;
  EXPECT_NE(joined, lost.id);
  EXPECT_THAT(lost.stored(), ElementsAre(joined));
  EXPECT_EQ(cluster.await_end(cluster.submit_job(1)).state, JobState::succeeded);
  cluster.kill_head();
  cluster.start_head();
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive)) << "it is still the one that joined, and not drained";
  EXPECT_EQ(cluster.node("a").id, joined);
}

TEST(Forget, ANodeThatJoinsMeanwhileIsStillDrainedIfItCouldNotBeRemoved) {
  Lost lost;
  auto& cluster = lost.cluster;
  std::optional<Result<void>> answer;
  cluster.store->hold(remove_a_node);
  lost.begin_to_forget(answer);
  cluster.add_node("a", 1);
  cluster.simulation.pass(1s);
  cluster.store->refuse(remove_a_node);
  cluster.store->release();
  ASSERT_TRUE(lost.await(answer));
  EXPECT_EQ(answer->error().code, Errc::exhausted);
  ASSERT_TRUE(cluster.await_node("a", NodeState::draining));
  EXPECT_EQ(cluster.node("a").id, lost.id);
  EXPECT_THAT(lost.stored(), ElementsAre(lost.id));
}

TEST(Forget, WhatElseIsAskedOfTheNodeComesAfterwards) {
  Lost lost;
  auto& cluster = lost.cluster;
  std::optional<Result<void>> first;
  std::optional<Result<void>> second;
  std::optional<Error> undrained;
  cluster.store->hold(remove_a_node);
  lost.begin_to_forget(first);
  lost.begin_to_forget(second);
  net::co_spawn(cluster.simulation.executor(), cluster.head->undrain("a"),
                [&undrained](const std::exception_ptr&, Result<NodeRecord> done) { undrained = done.error(); });
  cluster.simulation.settle();
  EXPECT_FALSE(first || second || undrained);
  cluster.store->release();
  ASSERT_TRUE(lost.await(first) && lost.await(second));
  ASSERT_TRUE(cluster.simulation.run_until([&undrained] { return undrained.has_value(); }));
  EXPECT_TRUE(*first);
  EXPECT_EQ(second->error().code, Errc::not_found);
  EXPECT_EQ(undrained->code, Errc::not_found);
  EXPECT_THAT(lost.stored(), IsEmpty()) << "an undrain that is written behind the removal would bring it back";
  EXPECT_THAT(lost.happened(), Contains("node.forgotten a").Times(1));
}

TEST(Forget, OfTwoThatAskTheSecondTriesAgainIfTheFirstHasFailed) {
  Lost lost;
  std::optional<Result<void>> first;
  std::optional<Result<void>> second;
  lost.cluster.store->hold(remove_a_node);
  lost.begin_to_forget(first);
  lost.begin_to_forget(second);
  int asked = 0;
  lost.cluster.store->refuse([&asked](const std::vector<Change>&) { return ++asked == 1; });
  lost.cluster.store->release();
  ASSERT_TRUE(lost.await(first) && lost.await(second));
  EXPECT_EQ(first->error().code, Errc::exhausted);
  EXPECT_TRUE(*second);
  EXPECT_THAT(lost.stored(), IsEmpty());
}

TEST(Forget, ANodeThatWasForgottenWhileItRunsJoinsAnew) {
  FakeCluster cluster;
  cluster.add_node("a", 1);
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  const auto before = cluster.node("a").id;
  cluster.node_processes["a"]->stop();
  ASSERT_TRUE(cluster.await_node("a", NodeState::lost));
  ASSERT_TRUE(cluster.simulation.run(cluster.head->forget("a")));
  cluster.node_processes["a"]->resume();
  ASSERT_TRUE(cluster.await_node("a", NodeState::alive));
  EXPECT_NE(cluster.node("a").id, before);
  EXPECT_EQ(cluster.await_end(cluster.submit_job(1)).state, JobState::succeeded);
}

}  // namespace
}  // namespace weir::cluster
