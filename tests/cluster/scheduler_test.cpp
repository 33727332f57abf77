#include "cluster/scheduler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::cluster {
namespace {

using protocol::Placement;
using testing::ElementsAre;
using testing::HasSubstr;

NodeOffer node(const std::string& name, double cpu, double free_cpu) {
  return {name, name, {{"cpu", cpu}}, {{"cpu", free_cpu}}, true};
}

Gang gang(std::uint32_t workers, double cpu, Placement placement = Placement::pack) {
  return {workers, {{"cpu", cpu}}, placement};
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
  EXPECT_THAT(result.reason, HasSubstr("node a has room for 2; node b has room for 1"));
}

TEST(Scheduler, NamesWhatEachNodeLacksAndWhatWouldFit) {
  std::vector<NodeOffer> nodes = {node("a", 2, 2), node("b", 4, 1)};
  nodes[1].total["gpu"] = nodes[1].free["gpu"] = 1;
  Gang big{2, {{"cpu", 3}, {"gpu", 1}}, Placement::pack};
  const auto result = place(big, nodes);
  EXPECT_FALSE(result.fits());
  EXPECT_FALSE(result.possible);
  EXPECT_THAT(result.reason, HasSubstr("node a lacks cpu (2, a worker needs 3) and gpu (0, a worker needs 1)"));
  EXPECT_THAT(result.reason, HasSubstr("node b has room for 1"));
  EXPECT_THAT(result.reason, HasSubstr("ask for 1 worker, or add a node with cpu=3 gpu=1"));
  EXPECT_THAT(place(gang(2, 8), nodes).reason, HasSubstr("ask for cpu=2 per worker"));
}

TEST(Scheduler, ADrainingNodeTakesNothing) {
  std::vector<NodeOffer> nodes = {node("a", 4, 4)};
  nodes[0].open = false;
  const auto result = place(gang(1, 1), nodes);
  EXPECT_FALSE(result.fits());
  EXPECT_THAT(result.reason, HasSubstr("node a is draining"));
}

TEST(Scheduler, SaysThatThereAreNoNodes) { EXPECT_THAT(place(gang(1, 1), {}).reason, HasSubstr("no node has joined")); }

TEST(Scheduler, FractionsOfACoreAddUp) {
  const std::vector<NodeOffer> nodes = {node("a", 1, 1)};
  EXPECT_EQ(place(gang(10, 0.1), nodes).nodes.size(), 10u);
  EXPECT_FALSE(place(gang(11, 0.1), nodes).fits());
  EXPECT_EQ(place(gang(3, 0), nodes).nodes.size(), 3u);
}

}  // namespace
}  // namespace weir::cluster
