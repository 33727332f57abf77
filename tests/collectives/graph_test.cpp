#include "collectives/gossip/graph.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/errc.hpp"

namespace weir::collectives {
namespace {

Graph graph_of(std::uint32_t ranks, const GraphChoice& choice) {
  auto made = make_graph(ranks, choice);
  EXPECT_TRUE(made) << made.error().message();
  return *made;
}

GraphChoice regular(std::int64_t degree, std::int64_t seed = 0) {
  return {.name = "random_regular", .degree = degree, .seed = seed};
}

std::vector<std::uint32_t> list(std::span<const std::uint32_t> ranks) { return {ranks.begin(), ranks.end()}; }

/// All edges, each once.
std::set<std::pair<std::uint32_t, std::uint32_t>> edges(const Graph& graph) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> all;
  for (std::uint32_t rank = 0; rank < graph.ranks(); ++rank) {
    for (const std::uint32_t other : graph.neighbours(rank)) all.emplace(std::min(rank, other), std::max(rank, other));
  }
  return all;
}

/// A choice of each graph for that many ranks, random regular ones of every degree up to 8.
std::vector<GraphChoice> choices(std::uint32_t ranks) {
  std::vector<GraphChoice> all;
  for (const GraphType& type : graphs()) {
    if (type.name != "random_regular") all.push_back({.name = std::string(type.name)});
  }
  for (std::uint32_t degree = std::min(2U, ranks - 1); degree < std::min(ranks, 9U); ++degree) {
    if (ranks * degree % 2 == 0) all.push_back(regular(degree, ranks));
  }
  return all;
}

TEST(Graphs, AreConnectedAndTheirWeightsDoublyStochastic) {
  for (const std::uint32_t ranks : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U, 16U, 25U, 37U, 64U}) {
    for (const GraphChoice& choice : choices(ranks)) {
      SCOPED_TRACE(choice.name + " of " + std::to_string(ranks) + ", degree " + std::to_string(choice.degree));
      const Graph graph = graph_of(ranks, choice);
      EXPECT_EQ(graph.ranks(), ranks);
      EXPECT_TRUE(graph.connected());
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        const auto neighbours = graph.neighbours(rank);
        EXPECT_TRUE(std::ranges::is_sorted(neighbours));
        double others = 0;
        for (const std::uint32_t other : neighbours) {
          EXPECT_NE(other, rank);
          EXPECT_TRUE(std::ranges::binary_search(graph.neighbours(other), rank)) << "an edge has two ends";
          EXPECT_GT(graph.mixing_weight(rank, other), 0);
          EXPECT_EQ(graph.mixing_weight(rank, other), graph.mixing_weight(other, rank));
          others += graph.mixing_weight(rank, other);
        }
        EXPECT_LT(others, 1) << "some weight is left for the own values";
        EXPECT_TRUE(choice.name != "random_regular" || graph.degree(rank) == choice.degree);
      }
    }
  }
}

TEST(Graphs, WeightsFollowTheLargerDegree) {
  Graph star(4);
  for (std::uint32_t leaf = 1; leaf < 4; ++leaf) star.connect(0, leaf);
  star.connect(0, 1);  // once more, which changes nothing
  star.connect(2, 2);
  EXPECT_EQ(star.degree(0), 3U);
  EXPECT_EQ(star.degree(2), 1U);
  EXPECT_DOUBLE_EQ(star.mixing_weight(0, 1), 0.25);
  EXPECT_DOUBLE_EQ(star.mixing_weight(1, 0), 0.25);
}

TEST(Graphs, KnowWhetherTheyAreConnected) {
  Graph two_parts(4);
  two_parts.connect(0, 1);
  two_parts.connect(2, 3);
  EXPECT_FALSE(two_parts.connected());
  two_parts.connect(1, 2);
  EXPECT_TRUE(two_parts.connected());
}

TEST(Graphs, ATorusIsAsSquareAsTheNumberOfRanksAllows) {
  const Graph nine = graph_of(9, {.name = "torus"});
  EXPECT_EQ(list(nine.neighbours(0)), (std::vector<std::uint32_t>{1, 2, 3, 6}));
  EXPECT_EQ(list(nine.neighbours(4)), (std::vector<std::uint32_t>{1, 3, 5, 7}));
  // 3 rows of 4; and 2 rows, where up and down lead to the same rank.
  EXPECT_EQ(list(graph_of(12, {.name = "torus"}).neighbours(0)), (std::vector<std::uint32_t>{1, 3, 4, 8}));
  EXPECT_EQ(list(graph_of(6, {.name = "torus"}).neighbours(0)), (std::vector<std::uint32_t>{1, 2, 3}));
  for (const std::uint32_t prime : {2U, 3U, 5U, 7U, 37U}) {
    EXPECT_EQ(edges(graph_of(prime, {.name = "torus"})), edges(graph_of(prime, {.name = "ring"}))) << prime;
  }
}

TEST(Graphs, AreAFunctionOfRanksAndChoice) {
  EXPECT_EQ(edges(graph_of(20, regular(3, 5))), edges(graph_of(20, regular(3, 5))));
  EXPECT_NE(edges(graph_of(20, regular(3, 5))), edges(graph_of(20, regular(3, 6))));
  // Written down once, because ranks of different builds must agree.
  const std::set<std::pair<std::uint32_t, std::uint32_t>> expected{{0, 2}, {0, 5}, {0, 6}, {1, 5}, {1, 6}, {1, 7},
                                                                   {2, 3}, {2, 6}, {3, 4}, {3, 7}, {4, 5}, {4, 7}};
  EXPECT_EQ(edges(graph_of(8, regular(3, 1))), expected);
}

TEST(Graphs, RandomRegularOnesDifferFromSeedToSeed) {
  // Of the 15 perfect matchings of 6 ranks without one, each leaves a 4-regular graph: all of them must come up.
  std::set<std::set<std::pair<std::uint32_t, std::uint32_t>>> drawn;
  for (std::int64_t seed = 0; seed < 300; ++seed) drawn.insert(edges(graph_of(6, regular(4, seed))));
  EXPECT_EQ(drawn.size(), 15U);
}

TEST(Graphs, RandomRegularOnesOfEveryDegreeAreMade) {
  for (const std::uint32_t degree : {2U, 3U, 10U, 127U}) {
    const Graph graph = graph_of(1024, regular(degree));
    EXPECT_TRUE(graph.connected());
    EXPECT_EQ(edges(graph).size(), 512U * degree);
  }
}

TEST(Graphs, WhatCannotBeIsRefused) {
  struct Case {
    std::uint32_t ranks;
    GraphChoice choice;
    Errc code;
    const char* why;
  };
  const std::vector<Case> cases{
      {4, {.name = "star"}, Errc::not_found, "there is no graph \"star\""},
      {4, regular(4), Errc::invalid_argument, "of 4 ranks with degree 4: each of them has from 0 to 3 others"},
      {4, regular(1'000'000'000'000), Errc::invalid_argument, "from 0 to 3"},
      {4, regular(-2), Errc::invalid_argument, "from 0 to 3"},
      {1, regular(1), Errc::invalid_argument, "from 0 to 0"},
      {5, regular(3), Errc::invalid_argument, "of 5 ranks with degree 3: one of both must be even"},
      {4, regular(1), Errc::invalid_argument, "a connected one has a degree of at least 2"},
      {4, regular(0), Errc::invalid_argument, "at least 2"},
      {2, regular(0), Errc::invalid_argument, "at least 1"},
  };
  for (const Case& c : cases) {
    const auto made = make_graph(c.ranks, c.choice);
    ASSERT_FALSE(made) << c.why;
    EXPECT_EQ(made.error().code, c.code);
    EXPECT_NE(made.error().context.find(c.why), std::string::npos) << made.error().message();
  }
}

}  // namespace
}  // namespace weir::collectives
