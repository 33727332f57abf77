// What the head answers about the whole cluster when there are many nodes, jobs and workers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/cluster/fake_cluster.hpp"

namespace weir::cluster {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAreArray;
using testing::IsEmpty;
using testing::SizeIs;

/// Six nodes and five jobs, each of which has workers on several nodes.
struct Busy {
  Busy() {
    cluster.script.step_time = 1h;
    for (const char* name : {"a", "b", "c", "d", "e", "f"}) cluster.add_node(name, 4);
    cluster.simulation.pass(1s);  // all have joined: the jobs go to all of them
    EXPECT_THAT(cluster.simulation.run(cluster.head->nodes()).value(), SizeIs(6));
    for (int i = 0; i < 5; ++i) {
      ids.insert(cluster.submit_job(4, {{"resources", {{"placement", "spread"}}}}));
    }
    for (const auto& id : ids) EXPECT_EQ(cluster.await_phase(id, JobPhase::training).phase, JobPhase::training);
  }

  FakeCluster cluster;
  std::set<std::string> ids;
};

TEST(Overview, EachNodeHasTheWorkersThatTheJobsHaveThere) {
  Busy busy;
  auto& cluster = busy.cluster;
  std::map<std::string, std::vector<std::string>> expected;  // by node; the jobs in order, and the ranks within each
  for (const auto& id : busy.ids) {
    for (const auto& worker : cluster.simulation.run(cluster.head->workers(id)).value()) {
      expected[worker.node].push_back(worker.id);
    }
  }
  const auto ids_of = [](const NodeRecord& node) {
    std::vector<std::string> found;
    for (const auto& worker : node.workers) found.push_back(worker.id);
    return found;
  };
  const auto nodes = cluster.simulation.run(cluster.head->nodes()).value();
  ASSERT_THAT(nodes, SizeIs(6));
  std::size_t workers = 0;
  for (const auto& node : nodes) {
    EXPECT_THAT(ids_of(node), ElementsAreArray(expected[node.name])) << node.name;
    EXPECT_THAT(ids_of(cluster.node(node.name)), ElementsAreArray(expected[node.name])) << node.name;
    workers += node.workers.size();
  }
  EXPECT_EQ(workers, 20u);

  ASSERT_TRUE(cluster.simulation.run(cluster.head->stop_job(*busy.ids.begin())));
  cluster.script.step_time = 10ms;
  cluster.spawners["a"]->kill(0);
  cluster.simulation.pass(10s);
  for (const auto& node : cluster.simulation.run(cluster.head->nodes()).value()) {
    for (const auto& worker : node.workers) EXPECT_NE(worker.state, WorkerState::exited) << worker.id;
  }
}

TEST(Overview, PagesOfActorsAreTheWholeListInOrder) {
  Busy busy;
  auto& head = *busy.cluster.head;
  const auto names_of = [](const ActorPage& page) {
    std::vector<std::string> names;
    for (const auto& actor : page.actors) names.push_back(actor.name);
    return names;
  };
  const auto all = names_of(busy.cluster.simulation.run(head.actors("", 1000, "")).value());
  ASSERT_THAT(all, SizeIs(2 + 6 + 2 * 20));
  EXPECT_TRUE(std::ranges::is_sorted(all));
  for (const std::uint32_t limit : {1u, 7u, 48u}) {
    std::vector<std::string> paged;
    std::string cursor;
    do {
      const auto page = busy.cluster.simulation.run(head.actors("", limit, cursor)).value();
      EXPECT_LE(page.actors.size(), limit);
      for (auto& name : names_of(page)) paged.push_back(std::move(name));
      cursor = page.next;
    } while (!cursor.empty());
    EXPECT_THAT(paged, ElementsAreArray(all)) << "in pages of " << limit;
  }
}

TEST(Overview, HeartbeatsComeToThoseWhoFollowTheCluster) {
  Busy busy;
  auto& cluster = busy.cluster;
  cluster.simulation.pass(5s);  // nobody follows
  auto subscription = cluster.simulation.run(cluster.head->subscribe(Topics::parse("cluster").value(), {})).value();
  std::set<std::string> names;
  for (int i = 0; i < 20; ++i) {
    const auto batch = cluster.simulation.run(subscription->next(200ms)).value();
    for (const auto& item : batch.items) {
      ASSERT_EQ(item.kind, StreamKind::node) << item.data;
      const auto node = nlohmann::json::parse(item.data);
      EXPECT_THAT(node.at("workers"), testing::Not(IsEmpty())) << item.data;
      names.insert(node.at("name"));
    }
  }
  EXPECT_THAT(names, SizeIs(6));
}

}  // namespace
}  // namespace weir::cluster
