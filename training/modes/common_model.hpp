#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "training/exchange/exchange.hpp"
#include "training/models/model.hpp"

namespace weir::training {

/// The model that all ranks have in common, beside the one that this rank trains: it changes where they exchange by how
/// much theirs differ from it. Owned by a mode, used by its compute thread.
class CommonModel {
 public:
  /// `trained`: the tensors that the ranks exchange (Replica::exchanged_tensors), which have the common values now.
  explicit CommonModel(std::vector<NamedTensor> trained);

  /// Takes the same tensors anew: a TorchScript module may have replaced some since. To be called after own steps,
  /// before give() and adopt(). Fails with: conflict (one has become a tensor of another shape or type, or there are
  /// others).
  Result<void> follow(std::vector<NamedTensor> trained);

  /// Gives an exchange `scale` times what this rank's tensors differ from the common ones by; of some of them,
  /// ascending. The last comes first, as in a backward pass.
  void give(Exchange& exchange, std::span<const std::uint32_t> tensors, double scale = 1);

  /// Adds `rate` times `difference` to a tensor.
  void add(std::uint32_t tensor, const at::Tensor& difference, double rate = 1);

  /// Has this rank go on from the common tensor, but for the share `kept` of what its own differs by.
  void adopt(std::uint32_t tensor, double kept = 0);

  /// Of all tensors.
  std::span<const std::uint32_t> all() const { return all_; }
  /// Aliases the live tensors, under the names of those that are trained.
  std::vector<NamedTensor> tensors() const { return common_; }

 private:
  std::vector<NamedTensor> trained_;
  std::vector<std::uint32_t> all_;
  std::vector<NamedTensor> common_;
  std::vector<at::Tensor> differences_;
};

}  // namespace weir::training
