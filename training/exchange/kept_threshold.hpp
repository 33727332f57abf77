#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "base/result.hpp"

namespace weir::training {

/// The least magnitude of a tensor's sums that go back to the ranks, so that about as many do as a rank chooses. It is
/// the k-th largest of a round, and is kept for rounds_max rounds, or until a third more or fewer sums reach it
/// (Ok-Topk). After too many sums it is that of these; after too few there is none for a round, in which the owners
/// send back as many of the largest as they may. All ranks have the same one: it follows from what all of them receive.
class KeptThreshold {
 public:
  /// As compressors::magnitude() gives it; at least that of the smallest number, since zeros never go back.
  std::uint32_t least() const { return magnitude_; }

  /// Ends a round. `returned`: the sums that went back; `due`: how many should have.
  void end_round(std::span<const float> returned, std::uint64_t due);

  /// The state as a tensor of integers, for a checkpoint.
  at::Tensor save() const;
  /// Fails with: malformed.
  Result<void> restore(const at::Tensor& state);

  static constexpr std::uint32_t rounds_max = 32;  ///< as in Ok-Topk

 private:
  static constexpr std::uint32_t none = 1;

  std::uint32_t magnitude_ = none;
  std::uint32_t rounds_ = 0;  ///< for which it was kept
};

}  // namespace weir::training
