#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/collective.hpp"
#include "collectives/gossip/graph.hpp"
#include "collectives/receivers.hpp"

namespace weir::collectives {

/// Operations between neighbours in a graph, for training in which the ranks need not agree after each step (D-PSGD,
/// Lian et al. 2017). It is not a Collective: no operation of it combines the values of all ranks. Repeated mixing
/// leads to their mean, and the faster the smaller the second largest eigenvalue of the matrix of weights is.
///
/// As in a Collective, each operation is a task on the loop that runs the group, and all ranks carry out the same ones
/// of a lane in the same order, one after the other, with the same `about` and matching sizes. They fail with the
/// errors of Communicator; the contents of buffers are then unspecified.
class Gossip {
 public:
  /// `group` must outlive it; `graph` is over its ranks, and the same on all.
  Gossip(Communicator& group, const Graph& graph);

  static constexpr std::string_view name = "gossip";
  static constexpr std::string_view summary =
      "each worker averages with its neighbours in a graph only; for training modes that do not want one mean";

  /// The numbers that mix() takes.
  static constexpr std::array elements = all_elements;

  /// By distance: first the nearest before this rank, where rank 0 comes after the last.
  std::span<const std::uint32_t> neighbours() const { return neighbours_; }

  /// Replaces this rank's values x_i by the sum of w_ij x_j over itself and its neighbours j, with the graph's weights.
  /// It is computed as x_i plus the sum of w_ij (x_j - x_i), in the order of neighbours(), in float32, and rounded
  /// once: ranks that have the same values keep them bit by bit, and what one rank gains the other loses.
  Task<> mix(Buffer values, Subject about);
  /// One message to each neighbour and one from each, at the same time.
  static Cost mix_cost(std::uint32_t degree, double bytes);

  /// Sends `own` to each neighbour, and receives as `gathered.payloads[i]` what neighbours()[i] sends, for values that
  /// travel compressed (CHOCO, Koloskova et al. 2019). Fails also with: invalid_argument (the own payload is longer
  /// than gathered.bytes_max), malformed (another's is).
  Task<> gather(BytesView own, Gathered& gathered, Subject about);
  static Cost gather_cost(std::uint32_t degree, double bytes);

 private:
  /// Adds weight * (x_j - x_i) to the mixed values while neighbour j's values x_j arrive.
  class Mixer final : public Receiver {
   public:
    Mixer(float weight, const Buffer& own, std::span<float> mixed, Receive* follower)
        : weight_(weight), own_(own), mixed_(mixed), onward_{.follower = follower} {}

    Result<void> begin(std::uint64_t message_bytes) override { return expect_length(message_bytes, own_.bytes.size()); }
    std::span<std::byte> place(std::uint64_t, std::size_t) override { return {}; }
    void arrived(std::uint64_t offset, BytesView piece) override;
    void progressed(std::uint64_t bytes, const std::optional<PieceDigest>&) override { onward_(bytes); }
    bool computes() const override { return true; }

   private:
    const float weight_;
    const Buffer own_;
    const std::span<float> mixed_;
    const Onward onward_;
  };

  /// The messages of one operation to and from one neighbour.
  struct Edge {
    std::optional<Send> sent;
    std::optional<Mixer> mixer;
    std::optional<Collector> collector;
    std::optional<Receive> arrival;
  };
  /// Ends an operation's messages with it, also where it is given up.
  struct EndOfOperation {
    explicit EndOfOperation(std::vector<Edge>& all) : edges(all) {}
    ~EndOfOperation();
    std::vector<Edge>& edges;
  };

  Task<> mix_now(Buffer values, Subject about);
  Task<> gather_now(BytesView own, Gathered& gathered, Subject about);
  void send_to_neighbours(const ConstBuffer& message, const Subject& about);
  Task<> finish();

  Communicator& group_;
  const std::uint64_t graph_;  ///< its fingerprint
  std::vector<std::uint32_t> neighbours_;
  std::vector<float> weights_;  ///< of neighbours_
  std::vector<Edge> edges_;     ///< to neighbours_
  std::vector<float> mixed_;
};

}  // namespace weir::collectives
