#include "collectives/gossip/graph.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "base/philox.hpp"
#include "base/xxh3.hpp"

namespace weir::collectives {
namespace {

Result<Graph> ring(std::uint32_t ranks, const GraphChoice&) {
  Graph graph(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) graph.connect(rank, (rank + 1) % ranks);
  return graph;
}

/// Row by row, in as many rows as the largest divisor of the number of ranks that is not above its square root. For a
/// prime number that is one row, a ring.
Result<Graph> torus(std::uint32_t ranks, const GraphChoice&) {
  std::uint32_t rows = 1;
  for (std::uint32_t divisor = 2; divisor * divisor <= ranks; ++divisor) {
    if (ranks % divisor == 0) rows = divisor;
  }
  const std::uint32_t columns = ranks / rows;
  Graph graph(ranks);
  for (std::uint32_t row = 0; row < rows; ++row) {
    for (std::uint32_t column = 0; column < columns; ++column) {
      const std::uint32_t rank = row * columns + column;
      graph.connect(rank, row * columns + (column + 1) % columns);
      graph.connect(rank, (row + 1) % rows * columns + column);
    }
  }
  return graph;
}

Result<Graph> complete(std::uint32_t ranks, const GraphChoice&) {
  Graph graph(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    for (std::uint32_t other = rank + 1; other < ranks; ++other) graph.connect(rank, other);
  }
  return graph;
}

/// A graph in which every rank has `degree` neighbours, as a list of edges that can be switched.
class RegularGraph {
 public:
  /// Begins with each rank connected to the nearest ones on a ring and, for an odd degree, to the one opposite.
  RegularGraph(std::uint32_t ranks, std::uint32_t degree) : ranks_(ranks), adjacent_(std::size_t{ranks} * ranks) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      for (std::uint32_t distance = 1; distance <= degree / 2; ++distance) add({rank, (rank + distance) % ranks});
      if (degree % 2 == 1 && rank < ranks / 2) add({rank, rank + ranks / 2});
    }
  }

  std::size_t edges() const { return edges_.size(); }

  /// Draws two edges, a-b and c-d, and puts a-d and c-b in their place, unless one of these is there or a loop.
  void switch_two(const Philox::Block& random) {
    const auto count = static_cast<std::uint32_t>(edges_.size());
    Edge& first = edges_[Philox::below(count, random[0])];
    Edge& second = edges_[Philox::below(count, random[1])];
    const auto [a, b] = first;
    const auto [c, d] = (random[2] & 1) != 0 ? second : Edge(second.second, second.first);
    if (a == d || c == b || linked(a, d) || linked(c, b)) return;
    link(first, false);
    link(second, false);
    first = {a, d};
    second = {c, b};
    link(first, true);
    link(second, true);
  }

  Graph graph() const {
    Graph made(ranks_);
    for (const auto& [one, other] : edges_) made.connect(one, other);
    return made;
  }

 private:
  using Edge = std::pair<std::uint32_t, std::uint32_t>;

  bool linked(std::uint32_t one, std::uint32_t other) const { return adjacent_[std::size_t{one} * ranks_ + other]; }
  void link(const Edge& edge, bool linked) {
    adjacent_[std::size_t{edge.first} * ranks_ + edge.second] = linked;
    adjacent_[std::size_t{edge.second} * ranks_ + edge.first] = linked;
  }
  void add(const Edge& edge) {
    edges_.push_back(edge);
    link(edge, true);
  }

  const std::uint32_t ranks_;
  std::vector<Edge> edges_;
  std::vector<bool> adjacent_;  ///< by both ranks
};

/// Why there is no connected graph of so many ranks with that degree; empty if there is one.
std::string why_not_regular(std::uint32_t ranks, std::int64_t degree) {
  if (degree < 0 || degree >= ranks) {
    return "each of them has from 0 to " + std::to_string(ranks - 1) + " others";
  }
  if (degree % 2 == 1 && ranks % 2 == 1) return "one of both must be even";
  const std::int64_t least = std::min<std::int64_t>(ranks - 1, 2);
  if (degree < least) return "a connected one has a degree of at least " + std::to_string(least);
  return {};
}

/// By random switches of pairs of edges, which lead from every regular graph to every other (Cooper, Dyer and Greenhill
/// 2007).
Result<Graph> random_regular(std::uint32_t ranks, const GraphChoice& choice) {
  if (const std::string why = why_not_regular(ranks, choice.degree); !why.empty()) {
    return Error{Errc::invalid_argument, "no random regular graph of " + std::to_string(ranks) + " ranks with degree " +
                                             std::to_string(choice.degree) + ": " + why};
  }
  RegularGraph regular(ranks, static_cast<std::uint32_t>(choice.degree));
  const Philox random(static_cast<std::uint64_t>(choice.seed));
  constexpr std::size_t switches_per_edge = 32;
  std::uint64_t drawn = 0;
  const auto shuffle = [&](std::size_t switches) {
    for (std::size_t i = 0; i < switches; ++i) regular.switch_two(random.at(drawn++, 0, 0));
  };
  shuffle(switches_per_edge * regular.edges());
  Graph graph = regular.graph();
  // From degree 3 on, nearly every regular graph is connected; of degree 2, about one in the root of the ranks.
  while (!graph.connected()) {
    shuffle(regular.edges());
    graph = regular.graph();
  }
  return graph;
}

}  // namespace

Graph::Graph(std::uint32_t ranks) : neighbours_(ranks) { ensure(ranks > 0, "a graph of at least one rank"); }

void Graph::connect(std::uint32_t one, std::uint32_t other) {
  if (one == other) return;
  const auto add = [](std::vector<std::uint32_t>& to, std::uint32_t rank) {
    const auto place = std::ranges::lower_bound(to, rank);
    if (place == to.end() || *place != rank) to.insert(place, rank);
  };
  add(neighbours_[one], other);
  add(neighbours_[other], one);
}

/// By rank; none where no path leads to.
std::vector<std::optional<std::uint32_t>> Graph::distances_from(std::uint32_t rank) const {
  std::vector<std::optional<std::uint32_t>> distances(ranks());
  std::vector<std::uint32_t> reached{rank};
  distances[rank] = 0;
  for (std::size_t next = 0; next < reached.size(); ++next) {
    for (const std::uint32_t neighbour : neighbours(reached[next])) {
      if (distances[neighbour]) continue;
      distances[neighbour] = *distances[reached[next]] + 1;
      reached.push_back(neighbour);
    }
  }
  return distances;
}

bool Graph::connected() const {
  const auto distances = distances_from(0);
  return std::ranges::all_of(distances, [](const auto& distance) { return distance.has_value(); });
}

std::uint32_t Graph::diameter() const {
  std::uint32_t largest = 0;
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
    for (const auto& distance : distances_from(rank)) {
      ensure(distance.has_value(), "a connected graph");
      largest = std::max(largest, *distance);
    }
  }
  return largest;
}

double Graph::mixing_weight(std::uint32_t one, std::uint32_t other) const {
  return 1.0 / (1.0 + std::max(degree(one), degree(other)));
}

std::uint64_t Graph::fingerprint() const {
  std::uint64_t hash = ranks();
  for (const auto& of_rank : neighbours_) {
    hash = XXH3_64bits_withSeed(of_rank.data(), of_rank.size() * sizeof(std::uint32_t), hash);
  }
  return hash;
}

std::span<const GraphType> graphs() {
  static const std::array all{
      GraphType{"ring", "each rank and the two beside it", ring},
      GraphType{"torus",
                "rows and columns that close to rings, as square as the number of ranks allows; a ring for a "
                "prime number",
                torus},
      GraphType{"random_regular", "drawn at random among those in which every rank has `degree` neighbours",
                random_regular},
      GraphType{"complete", "each rank and all others; one step leads to the mean", complete}};
  return all;
}

Result<Graph> make_graph(std::uint32_t ranks, const GraphChoice& choice) {
  const auto type = std::ranges::find(graphs(), choice.name, &GraphType::name);
  if (type != graphs().end()) return type->make(ranks, choice);
  return Error{Errc::not_found, "there is no graph \"" + choice.name + "\""};
}

}  // namespace weir::collectives
