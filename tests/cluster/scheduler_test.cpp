#include "cluster/scheduler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace weir::cluster {
namespace {

using protocol::Placement;
using testing::ElementsAre;
using testing::HasSubstr;

NodeOffer node(const std::string& name, double cpu, double free_cpu) {
  return {name, name, {{"cpu", cpu}}, {{"cpu", free_cpu}}, true, {}};
}

Gang gang(std::uint32_t workers, double cpu, Placement placement = Placement::pack) {
  return {{{workers, {{"cpu", cpu}}}}, placement};
}

TEST(Scheduler, PackFillsAsFewNodesAsPossible) {
  const std::vector<NodeOffer> nodes = {node("a", 8, 2), node("b", 8, 8), node("c", 8, 4)};
  EXPECT_THAT(place(gang(4, 1), nodes).nodes, ElementsAre("c", "c", "c", "c"));
  EXPECT_THAT(place(gang(2, 1), nodes).nodes, ElementsAre("a", "a"));
  EXPECT_THAT(place(gang(10, 1), nodes).nodes, ElementsAre("a", "a", "b", "b", "b", "b", "b", "b", "b", "b"));
}

TEST(Scheduler, SpreadUsesAsManyNodesAsPossible) {
  const std::vector<NodeOffer> nodes = {node("a", 8, 1), node("b", 8, 8), node("c", 8, 4)};
  EXPECT_THAT(place(gang(4, 1, Placement::spread), nodes).nodes, ElementsAre("a", "b", "b", "c"));
}

TEST(Scheduler, PlacesAllOrNothing) {
  const std::vector<NodeOffer> nodes = {node("a", 2, 2), node("b", 2, 1)};
  const auto result = place(gang(4, 1), nodes);
  EXPECT_FALSE(result.fits());
  EXPECT_TRUE(result.possible);
  EXPECT_THAT(explain(gang(4, 1), nodes), HasSubstr("node a has room for 2; node b has room for 1"));
}

TEST(Scheduler, NamesWhatEachNodeLacksAndWhatWouldFit) {
  std::vector<NodeOffer> nodes = {node("a", 2, 2), node("b", 4, 1)};
  nodes[1].total["gpu"] = nodes[1].free["gpu"] = 1;
  const Gang big{{{2, {{"cpu", 3}, {"gpu", 1}}}}};
  const auto result = place(big, nodes);
  EXPECT_FALSE(result.fits());
  EXPECT_FALSE(result.possible);
  const auto reason = explain(big, nodes);
  EXPECT_THAT(reason, HasSubstr("node a lacks cpu (2, a worker needs 3) and gpu (0, a worker needs 1)"));
  EXPECT_THAT(reason, HasSubstr("node b has room for 1"));
  EXPECT_THAT(reason, HasSubstr("ask for 1 worker, or add a node with cpu=3 gpu=1"));
  EXPECT_THAT(explain(gang(2, 8), nodes), HasSubstr("ask for cpu=2 per worker"));
}

TEST(Scheduler, ADrainingNodeTakesNothing) {
  std::vector<NodeOffer> nodes = {node("a", 4, 4)};
  nodes[0].open = false;
  EXPECT_FALSE(place(gang(1, 1), nodes).fits());
  EXPECT_THAT(explain(gang(1, 1), nodes), HasSubstr("node a is draining"));
}

TEST(Scheduler, LabelsSelectNodes) {
  std::vector<NodeOffer> nodes = {node("a", 4, 4), node("b", 4, 4), node("c", 4, 4)};
  nodes[0].labels = {{"zone", "x"}};
  nodes[1].labels = {{"zone", "y"}, {"disk", "ssd"}};
  Gang wanted = gang(2, 1);
  auto& group = wanted.groups[0];
  group.labels = {{"zone", "y"}};
  EXPECT_THAT(place(wanted, nodes).nodes, ElementsAre("b", "b"));
  group.labels["disk"] = "ssd";
  EXPECT_THAT(place(wanted, nodes).nodes, ElementsAre("b", "b"));
  group.count = 5;
  EXPECT_FALSE(place(wanted, nodes).possible) << "room on other nodes does not count";
  group.count = 2;
  group.labels = {{"zone", "z"}};
  EXPECT_FALSE(place(wanted, nodes).fits());
  EXPECT_EQ(explain(wanted, nodes),
            "the cluster has no room for 2 workers with cpu=1 each on nodes with zone=z even when idle: "
            "node a lacks label zone=z (it has zone=x); node b lacks label zone=z (it has zone=y); "
            "node c lacks label zone=z; to fit: do not ask for nodes with zone=z, "
            "or add a node with cpu=2 and the labels zone=z");
}

TEST(Scheduler, AReasonDoesNotGrowWithTheCluster) {
  std::vector<NodeOffer> nodes;
  for (int i = 100; i < 250; ++i) nodes.push_back(node("n" + std::to_string(i), 4, 4));
  const Gang wanted{{{512, {{"cpu", 1}, {"gpu", 1}}}}};
  const auto reason = explain(wanted, nodes);
  EXPECT_THAT(reason, HasSubstr("node n109 lacks gpu (0, a worker needs 1); and 140 more nodes; to fit: add a node"));
  nodes.resize(40);
  EXPECT_EQ(explain(wanted, nodes).size() + 1, reason.size()) << "one digit less";
}

/// A job from before the number of its resources was limited may wait in the store. To leave each of its resources out
/// in turn, of a copy of all, takes minutes.
TEST(Scheduler, ResourcesThatNoNodeOffersCostNothingToExplain) {
  const std::vector<NodeOffer> nodes = {node("a", 4, 4), node("b", 4, 4)};
  Gang wanted = gang(1, 8);
  for (int i = 0; i < 60'000; ++i) wanted.groups[0].each["r" + std::to_string(i)] = 1;
  EXPECT_EQ(greatest_fitting(wanted.groups[0], nodes, "r7"), 0);
  EXPECT_THAT(explain(wanted, nodes), HasSubstr("to fit: add a node with cpu=8 r0=1"));
}

TEST(Scheduler, OnlyAFewAmountsAreSuggested) {
  std::vector<NodeOffer> nodes;
  Gang wanted{{{1, {}}}};
  for (int i = 0; i < 30; ++i) {
    NodeOffer offer = node("n" + std::to_string(i), 0, 0);
    for (int j = 0; j < 30; ++j) offer.total["r" + std::to_string(j)] = i == j ? 1 : 8;  // each is short of one
    wanted.groups[0].each["r" + std::to_string(i)] = 2;
    nodes.push_back(offer);
  }
  EXPECT_THAT(explain(wanted, nodes),
              HasSubstr("to fit: ask for r0=1 per worker, or ask for r1=1 per worker, or ask for r10=1 per worker, or "
                        "ask for r11=1 per worker, or add a node"));
}

TEST(Scheduler, ASuggestedAmountIsNotRoundedUp) {
  const std::vector<NodeOffer> nodes = {node("a", 2, 2)};
  EXPECT_THAT(explain(gang(3, 1), nodes), HasSubstr("or ask for cpu=0.666666 per worker"));
  EXPECT_THAT(place(Gang{{{3, {{"cpu", 0.666666}}}}}, nodes).nodes, ElementsAre("a", "a", "a"));
  EXPECT_THAT(explain(gang(4, 1), nodes), HasSubstr("or ask for cpu=0.5 per worker")) << "an exact one stays";
  std::vector<NodeOffer> large = nodes;
  large[0].total["memory"] = large[0].free["memory"] = 8.0 * 1024 * 1024 * 1024;
  EXPECT_THAT(explain(Gang{{{3, {{"memory", 6e9}}}}}, large), HasSubstr("or ask for memory=2.666GiB per worker"));
}

/// What greatest_fitting() finds, by trying every amount at which the number of fitting workers can change.
double greatest_by_trying(Gang::Group group, const std::vector<NodeOffer>& nodes, const std::string& resource) {
  std::vector<double> amounts;
  for (const auto& node : nodes) {
    const auto found = node.total.find(resource);
    for (std::uint32_t share = 1; found != node.total.end() && share <= group.count; ++share) {
      amounts.push_back(found->second / share);
    }
  }
  std::sort(amounts.rbegin(), amounts.rend());
  for (const double amount : amounts) {
    if (amount <= 0) break;
    group.each[resource] = amount;
    auto idle = nodes;
    for (auto& node : idle) node.free = node.total;
    if (place(Gang{.groups = {group}}, idle).fits()) return amount;
  }
  return 0;
}

TEST(Scheduler, TheGreatestFittingAmountIsThatOfTryingThemAll) {
  std::mt19937 random(7);
  const auto below = [&random](std::uint32_t end) { return static_cast<std::uint32_t>(random() % end); };
  int found = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<NodeOffer> nodes;
    for (std::uint32_t i = 0; i < 1 + below(6); ++i) {
      nodes.push_back(node("n" + std::to_string(i), below(9), 0));
      nodes.back().total["gpu"] = below(4);
      nodes.back().open = below(5) != 0;
      nodes.back().labels = {{"zone", below(3) == 0 ? "x" : "y"}};
    }
    Gang::Group wanted{1 + below(20), {{"cpu", 0.5 * (1 + below(8))}, {"gpu", below(3)}}};
    if (below(3) == 0) wanted.labels = {{"zone", "y"}};
    for (const char* resource : {"cpu", "gpu"}) {
      const double expected = greatest_by_trying(wanted, nodes, resource);
      EXPECT_EQ(greatest_fitting(wanted, nodes, resource), expected) << "round " << round << " " << resource;
      if (expected > 0) ++found;
    }
  }
  EXPECT_GT(found, 100) << "the cases are worth something";
}

/// A node with GPUs of which so much is free, and cores for everybody.
NodeOffer gpu_node(const std::string& name, GpuRoom free) {
  NodeOffer offer = node(name, 100, 100);
  for (std::uint32_t i = 0; i < free.size(); ++i) offer.gpus.push_back(i);
  offer.gpus_total = GpuRoom(free.size(), 1);
  offer.total["gpu"] = static_cast<double>(free.size());
  offer.free["gpu"] = std::accumulate(free.begin(), free.end(), 0.0);
  offer.gpus_free = std::move(free);
  return offer;
}

Gang gpu_gang(std::uint32_t workers, double gpu) { return {{{workers, {{"cpu", 1}, {"gpu", gpu}}}}}; }

TEST(SchedulerGpus, PartsOfTwoGpusAreNoWholeOne) {
  const std::vector<NodeOffer> nodes = {gpu_node("a", {0.5, 0.5}), gpu_node("b", {0.25, 1})};
  EXPECT_THAT(place(gpu_gang(1, 1), nodes).nodes, ElementsAre("b"));
  EXPECT_THAT(place(gpu_gang(4, 0.5), nodes).nodes, ElementsAre("a", "a", "b", "b"));
  const auto waits = place(gpu_gang(2, 1), nodes);
  EXPECT_FALSE(waits.fits());
  EXPECT_TRUE(waits.possible);
  EXPECT_EQ(explain(gpu_gang(2, 1), nodes),
            "waits for room for 2 workers with cpu=1 gpu=1 each: node a lacks gpu (GPU 0 has 0.5 free, GPU 1 has 0.5 "
            "free; a worker needs a whole one); node b has room for 1");
  EXPECT_THAT(explain(gpu_gang(2, 0.75), nodes), HasSubstr("node a lacks gpu (GPU 0 has 0.5 free, GPU 1 has 0.5 free; "
                                                           "a worker needs 0.75 of one); node b has room for 1"));
  EXPECT_THAT(explain(gpu_gang(1, 2), nodes), HasSubstr("a worker needs 2 whole ones"));
}

TEST(SchedulerGpus, MoreThanANodeHasIsNeverPlaced) {
  const std::vector<NodeOffer> nodes = {gpu_node("a", {1, 1})};
  EXPECT_FALSE(place(gpu_gang(1, 4), nodes).possible);
  EXPECT_EQ(explain(gpu_gang(1, 4), nodes),
            "the cluster has no room for 1 worker with cpu=1 gpu=4 even when idle: node a lacks gpu (2, a worker needs "
            "4); to fit: ask for gpu=2 per worker, or add a node with cpu=1 gpu=4");
  EXPECT_THAT(explain(gpu_gang(3, 0.75), nodes), HasSubstr("ask for 2 workers, or ask for gpu=0.5 per worker"));
}

TEST(SchedulerGpus, ALostGpuIsNamed) {
  std::vector<NodeOffer> nodes = {gpu_node("a", {1})};
  nodes[0].gpus_lost = {1};
  EXPECT_THAT(explain(gpu_gang(1, 2), nodes), HasSubstr("node a lacks gpu (1, a worker needs 2; GPU 1 is lost)"));
}

TEST(SchedulerGpus, AGroupTakesGpusFromTheNext) {
  const std::vector<NodeOffer> nodes = {gpu_node("a", {1, 1})};
  Gang gang = gpu_gang(1, 0.5);
  gang.groups.push_back({1, {{"gpu", 1}}, {}, protocol::Role::server});
  EXPECT_THAT(place(gang, nodes).nodes, ElementsAre("a", "a"));
  gang.groups[0].count = 3;
  EXPECT_FALSE(place(gang, nodes).possible) << "halves on both";
  gang.groups[1].each = {};
  EXPECT_TRUE(place(gang, nodes).fits()) << "who asks for none needs none";
}

/// For groups of equal workers: what fits is found by placing them one after the other.
TEST(SchedulerGpus, TheGreatestFittingAmountIsThatOfTryingThemAll) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    std::vector<NodeOffer> nodes;
    std::vector<double> amounts;
    for (std::size_t i = 0; i < 1 + random() % 4; ++i) {
      nodes.push_back(gpu_node("n" + std::to_string(i), GpuRoom(random() % 5, 1)));
    }
    const auto workers = static_cast<std::uint32_t>(1 + random() % 20);
    for (std::uint32_t k = 1; k <= workers; ++k) amounts.push_back(1.0 / k);
    for (std::uint32_t k = 2; k <= 5; ++k) amounts.push_back(k);
    double expected = 0;
    for (const double amount : amounts) {
      if (place(gpu_gang(workers, amount), nodes).fits()) expected = std::max(expected, amount);
    }
    const Gang gang = gpu_gang(workers, 1);
    EXPECT_EQ(greatest_fitting(gang.groups[0], nodes, "gpu"), expected) << "round " << round;
  }
}

Gang with_servers(std::uint32_t workers, double cpu, std::uint32_t servers, double server_cpu) {
  return {{{workers, {{"cpu", cpu}}}, {servers, {{"cpu", server_cpu}}, {}, protocol::Role::server}}};
}

TEST(Scheduler, ServersTakeTheRoomThatTheWorkersLeave) {
  const std::vector<NodeOffer> nodes = {node("a", 4, 4), node("b", 4, 4)};
  EXPECT_THAT(place(with_servers(2, 1, 2, 1), nodes).nodes, ElementsAre("a", "a", "a", "a"));
  EXPECT_THAT(place(with_servers(3, 1, 2, 1), nodes).nodes, ElementsAre("a", "a", "a", "b", "b"));
  auto spread = with_servers(2, 1, 2, 1);
  spread.placement = Placement::spread;
  EXPECT_THAT(place(spread, nodes).nodes, ElementsAre("a", "b", "a", "b"));
  Gang watched = with_servers(4, 1, 1, 4);
  watched.groups.push_back({1, {}, {}, protocol::Role::state_server});
  EXPECT_THAT(place(watched, nodes).nodes, ElementsAre("a", "a", "a", "a", "b", "a"))
      << "what asks for nothing fits onto a full node";
}

TEST(Scheduler, WorkersAndServersAreOnlyPlacedTogether) {
  const std::vector<NodeOffer> nodes = {node("a", 4, 2), node("b", 4, 1)};
  const auto waits = with_servers(2, 1, 2, 1);
  EXPECT_FALSE(place(waits, nodes).fits());
  EXPECT_TRUE(place(waits, nodes).possible);
  EXPECT_EQ(
      explain(waits, nodes),
      "waits for room for 2 workers with cpu=1 each and 2 servers with cpu=1 each: beside 2 workers, node a lacks "
      "cpu (0 free of 4, a server needs 1); node b has room for 1");
  const auto never = with_servers(7, 1, 1, 2);
  EXPECT_FALSE(place(never, nodes).possible);
  EXPECT_THAT(explain(never, nodes), testing::AllOf(HasSubstr("even when idle: beside 7 workers, node a lacks cpu"),
                                                    HasSubstr("node b lacks cpu (1, a server needs 2)"),
                                                    HasSubstr("ask for cpu=1 per server")));
}

TEST(Scheduler, EachGroupHasItsLabels) {
  std::vector<NodeOffer> nodes = {node("a", 4, 4), node("b", 4, 4)};
  nodes[1].labels = {{"net", "fast"}};
  auto wanted = with_servers(2, 1, 1, 1);
  wanted.groups[1].labels = {{"net", "fast"}};
  EXPECT_THAT(place(wanted, nodes).nodes, ElementsAre("a", "a", "b"));
}

TEST(Scheduler, SaysThatThereAreNoNodes) { EXPECT_THAT(explain(gang(1, 1), {}), HasSubstr("no node has joined")); }

TEST(Scheduler, FractionsOfACoreAddUp) {
  const std::vector<NodeOffer> nodes = {node("a", 1, 1)};
  EXPECT_EQ(place(gang(10, 0.1), nodes).nodes.size(), 10u);
  EXPECT_FALSE(place(gang(11, 0.1), nodes).fits());
  EXPECT_EQ(place(gang(3, 0), nodes).nodes.size(), 3u);
}

}  // namespace
}  // namespace weir::cluster
