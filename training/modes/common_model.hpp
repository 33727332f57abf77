#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "training/exchange/exchange.hpp"
#include "training/models/model.hpp"

namespace weir::training {

/// The model that all ranks have in common, beside the one that this rank trains: it changes where they exchange by how
/// much theirs differ from it. Used by the compute thread.
class CommonModel {
 public:
  /// `model` is the common one now.
  explicit CommonModel(const Model& model);

  /// Gives an exchange by how much this rank's parameters differ from the common ones; of some of them, ascending. The
  /// last comes first.
  void give(Exchange& exchange, std::span<const std::uint32_t> parameters);

  /// Adds `rate` times `difference` to a parameter.
  void add(std::uint32_t parameter, const at::Tensor& difference, double rate);

  /// Has this rank go on from the common parameter, but for the share `kept` of what its own differs by.
  void adopt(std::uint32_t parameter, double kept = 0);

  /// Of all parameters.
  std::span<const std::uint32_t> all() const { return all_; }
  /// Aliases the live tensors, under the names of the parameters.
  std::vector<NamedTensor> tensors() const { return common_; }

 private:
  const std::vector<NamedTensor> trained_;
  std::vector<std::uint32_t> all_;
  std::vector<NamedTensor> common_;
  std::vector<at::Tensor> differences_;
};

}  // namespace weir::training
