#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace weir::training {

/// How the examples are divided among the ranks.
enum class Partition : std::uint8_t {
  iid,       ///< at random, again in every epoch
  by_class,  ///< sorted by class and cut into shards: each rank sees as few classes as possible
  dirichlet  ///< each rank draws its mixture of classes from a Dirichlet distribution
};

std::optional<Partition> partition_named(std::string_view name);

/// Determines which examples a rank uses in which step. It depends only on its options, so every rank knows every other
/// rank's shard, shards are disjoint, all ranks make equally many steps, and a resumed job continues where it stopped.
class Sampler {
 public:
  struct Options {
    Partition partition = Partition::iid;
    std::uint32_t rank = 0;
    std::uint32_t world = 1;
    std::uint64_t samples_per_step = 1;  ///< of this rank; those of all its batches
    std::uint64_t seed = 0;
    /// Concentration of the Dirichlet distribution: the smaller, the fewer classes most examples of a rank are from.
    double dirichlet_alpha = 0.5;
  };

  /// `classes`: the class of every example. Every rank's shard has floor(examples / world) examples. The rest, fewer
  /// than there are ranks, is in no shard: with iid others in every epoch; with by_class always the same, of any class;
  /// with dirichlet always those that no rank has drawn. Fails with: invalid_argument (a shard is smaller than what a
  /// step takes; by_class, and there are fewer classes than ranks).
  static Result<Sampler> make(const Options& options, std::span<const std::uint16_t> classes);

  /// Whole steps in a shard. The rest of the shard is dropped (different examples each time).
  std::uint64_t steps_per_epoch() const { return shard_size_ / options_.samples_per_step; }

  /// Which pass over the examples a step belongs to, counted from 0.
  std::uint64_t epoch_of(std::uint64_t step) const { return step / steps_per_epoch(); }

  /// Positions of the examples of step `step` (counted from 0 through all epochs); valid until the next call.
  std::span<const std::uint32_t> examples(std::uint64_t step);

 private:
  Sampler(const Options& options, std::size_t examples) : options_(options), examples_total_(examples) {}
  void enter_epoch(std::uint64_t epoch);

  Options options_;
  std::size_t examples_total_;
  std::size_t shard_size_ = 0;
  std::vector<std::uint32_t> fixed_shard_;  ///< ascending; empty for iid
  std::vector<std::uint32_t> order_;        ///< this rank's shard in the order of the current epoch
  std::optional<std::uint64_t> epoch_;
};

}  // namespace weir::training
