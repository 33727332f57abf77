#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "training/modes/mode.hpp"

namespace weir::training {

class Mixing;

/// Training without a mean: every rank has a model of its own, and mixes it with those of its neighbours in a graph.
/// W are the graph's weights (collectives::Graph::mixing_weight), gamma is `consensus_step`.
///
/// With a lossless compressor this is D-PSGD (Lian et al., NeurIPS 2017): the models are mixed while the gradients are
/// computed, at the models as they were before,
///
///     x_i <- x_i + gamma sum_j w_ij (x_j - x_i) + what the optimizer makes of the gradient at x_i
///
/// With any other it is CHOCO-SGD (Koloskova et al., ICML 2019; for deep learning ICLR 2020): the optimizer's step
/// comes first, and then the ranks tell each other by how much they have come away from what the others know of them
/// (Choco). Tensors that the compressor does not take are mixed as they are.
///
/// The model of the training is the mean of all ranks' models, with the mean of their statistics: those of rank 0's
/// batches alone would belong to another model and, where classes are divided, to other examples. It is computed,
/// around a ring, where it is evaluated or saved, and at the end. To stop, a rank tells its neighbours after how many
/// steps; those tell theirs, and the smallest number has reached all ranks by then.
class Gossip final : public Mode {
 public:
  static constexpr std::string_view type_name = "gossip";
  static constexpr std::string_view summary =
      "each worker trains a model of its own and mixes it with those of its neighbours in a graph after every step";
  static constexpr Exchanged type_exchanges = Exchanged::models;

  struct Options {
    std::string graph = "ring";
    std::int64_t degree = 4;
    std::optional<double> consensus_step;
  };
  static protocol::Params<Options> params();
  explicit Gossip(Options options);
  ~Gossip() override;

  Result<bool> train(Replica& replica, Progress& progress) override;
  Result<void> check(const protocol::JobSpec& spec, std::uint32_t world,
                     const compressors::Compression& compression) const override;
  Result<void> join(Replica& replica, collectives::Fabric& fabric) override;
  ModeState save() const override;
  Result<void> restore(Replica& replica, std::span<const NamedTensor> common,
                       std::span<const NamedTensor> own) override;
  const TrafficAccount* traffic(const Replica& replica) const override;

  Exchanged exchanges() const override { return type_exchanges; }
  bool own_models() const override { return true; }

 private:
  const Options options_;
  std::vector<NamedTensor> mean_;       ///< of the models, as it was computed last
  std::vector<NamedTensor> own_state_;  ///< restored, for join()
  std::unique_ptr<Mixing> mixing_;      ///< from join() on
};

}  // namespace weir::training
