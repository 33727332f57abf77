#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace weir::collectives {

/// An undirected graph without loops and double edges. Its vertices are the ranks of a group, its edges say which of
/// them exchange values.
class Graph {
 public:
  /// `ranks`: at least 1.
  explicit Graph(std::uint32_t ranks);

  std::uint32_t ranks() const { return static_cast<std::uint32_t>(neighbours_.size()); }

  /// In ascending order.
  std::span<const std::uint32_t> neighbours(std::uint32_t rank) const { return neighbours_[rank]; }
  std::uint32_t degree(std::uint32_t rank) const { return static_cast<std::uint32_t>(neighbours_[rank].size()); }

  /// Adds the edge between two ranks, unless it is there or they are the same.
  void connect(std::uint32_t one, std::uint32_t other);

  /// Whether a path leads from every rank to every other.
  bool connected() const;

  /// The most edges that the shortest path between two ranks has. The graph must be connected.
  std::uint32_t diameter() const;

  /// The weight with which two neighbours mix each other's values, by Metropolis and Hastings: 1 / (1 + the larger of
  /// their degrees) (Xiao, Boyd and Lall 2005). What is missing to 1 is a rank's weight for its own values. The matrix
  /// of these weights is symmetric and its rows and columns add up to 1, so that mixing keeps the sum of the values.
  double mixing_weight(std::uint32_t one, std::uint32_t other) const;

  /// A hash of the edges.
  std::uint64_t fingerprint() const;

 private:
  std::vector<std::optional<std::uint32_t>> distances_from(std::uint32_t rank) const;

  std::vector<std::vector<std::uint32_t>> neighbours_;
};

/// What a job says of the graph over which its ranks gossip.
struct GraphChoice {
  std::string name = "ring";
  std::int64_t degree = 4;  ///< of random_regular: the number of neighbours of each rank
  std::int64_t seed = 0;    ///< of random_regular
};

/// A graph that jobs can name: connected, and a function of the number of ranks and the choice alone, so that all ranks
/// make the same one.
struct GraphType {
  std::string_view name;
  std::string_view summary;
  Result<Graph> (*make)(std::uint32_t ranks, const GraphChoice& choice);
};

/// All of them; the default first.
std::span<const GraphType> graphs();

/// Makes the graph that `choice` names. Fails with: not_found (the name), invalid_argument (no graph of so many ranks
/// has that degree and is connected).
Result<Graph> make_graph(std::uint32_t ranks, const GraphChoice& choice);

}  // namespace weir::collectives
