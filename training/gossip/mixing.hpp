#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "collectives/fabric.hpp"
#include "collectives/gossip/graph.hpp"
#include "training/exchange/exchange.hpp"
#include "training/gossip/choco.hpp"
#include "training/gossip/neighbour_exchange.hpp"
#include "training/replica.hpp"

namespace weir::training {

/// When to stop, as neighbours tell each other: after how many steps; 0: not known.
class StopMessage {
 public:
  void propose(std::uint64_t steps) {
    if (!steps_) steps_ = steps;
  }
  bool comes_after(std::uint64_t steps) const { return steps_ == steps; }

  BytesView write();
  /// Takes a neighbour's message, who has `done` steps behind it and one under way. Fails with: malformed.
  Result<void> read(BytesView message, std::uint64_t done);

 private:
  std::optional<std::uint64_t> steps_;
  std::array<std::byte, sizeof(std::uint64_t)> bytes_{};
};

/// The tensors of a model that the model of the training has the mean of: its parameters, which are mixed, and the
/// statistics, which each rank has of its own batches.
std::vector<NamedTensor> averaged_tensors(const Model& model);

/// One rank's model and those of its neighbours, mixed in every step: a step consists of begin(), the passes and the
/// optimizer's step, and end(). Used by one thread.
class Mixing {
 public:
  using Clock = std::chrono::steady_clock;

  /// `consensus_step`: how far a rank goes towards its neighbours; without it 1, and for each compressed tensor what
  /// the compressor allows. The replica must outlive this object.
  Mixing(std::optional<double> consensus_step, Replica& replica, collectives::Fabric& fabric,
         const collectives::Graph& graph);

  /// Agrees on the steps of the compressed tensors. Fails with what the group and the compressor fail with.
  Result<void> join(std::optional<double> consensus_step, collectives::Fabric& fabric);

  void begin(Clock::time_point start, bool stop_wanted);
  /// Fails with: malformed (what a neighbour has sent; names it), and with what the group and the compressor fail with.
  Result<void> end();

  /// Makes `mean` that of all ranks' averaged_tensors(). Returns how far the parameters are from it: the square root of
  /// the mean square. Fails as expect_alike() and with what the group fails with.
  Result<double> average(std::vector<NamedTensor>& mean);

  Choco& choco() { return *choco_; }
  const StepTrace& trace() const { return neighbours_->trace(); }
  Exchange::Times times() const;  ///< of the last step
  bool stops_after(std::uint64_t steps) const { return stop_.comes_after(steps); }
  std::int64_t entries() const { return entries_; }

 private:
  /// Compressed tensors whose payloads travel together.
  struct Bucket {
    std::size_t first = 0;
    std::size_t last = 0;
    Bytes payload = {};
    std::vector<std::size_t> ends = {};
  };

  std::size_t first_bucket() const { return plain_.empty() ? 1 : 2; }
  void divide();
  void begin_mixing();
  Result<void> end_mixing();
  Result<void> begin_bucket(std::size_t b);
  Result<void> end_bucket(std::size_t b);
  Result<void> take_stop();
  Result<void> add_up(std::span<float> values);
  Result<void> wait(std::size_t message);

  Replica& replica_;
  const std::vector<NamedTensor> parameters_;
  const double plain_step_;
  const bool overlaps_;  ///< models are mixed as they were before the step
  const std::uint32_t stop_distance_;
  const std::uint64_t graph_;  ///< its fingerprint
  std::int64_t entries_ = 0;
  std::vector<std::uint32_t> plain_;  ///< positions of the tensors that are mixed as they are
  std::vector<std::uint32_t> coded_;
  std::vector<std::size_t> plain_ends_;
  at::Tensor before_;  ///< the plain tensors, one after the other
  at::Tensor mixed_;
  std::vector<Bucket> buckets_;
  std::unique_ptr<Choco> choco_;
  StopMessage stop_;
  Step step_;
  double waited_ = 0;                              ///< in this step
  std::unique_ptr<NeighbourExchange> neighbours_;  ///< uses the above
};

}  // namespace weir::training
