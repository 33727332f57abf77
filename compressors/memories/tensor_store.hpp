#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "compressors/compressor.hpp"

namespace weir::compressors {

/// One float32 tensor per tensor of the model, made as zeros when first asked for: what memories and compressors keep.
/// Saved under "<name>.<position of the tensor>".
class TensorStore {
 public:
  explicit TensorStore(std::string name) : name_(std::move(name)) {}

  /// The tensor for `round.tensor`. Fails with: invalid_argument (it has another shape than `like`).
  Result<at::Tensor> of(const Round& round, const at::Tensor& like);

  /// The tensor for `round.tensor`, if there is one.
  std::optional<at::Tensor> find(const Round& round) const;
  /// Replaces the tensor for `round.tensor`, whatever shape it had.
  void put(const Round& round, at::Tensor tensor) { tensors_[round.tensor] = std::move(tensor); }

  /// Makes the tensor for `round.tensor` zero, if there is one.
  void clear(const Round& round);

  void save(std::vector<NamedTensor>& to) const;

  /// Whether `name` is one of this store's.
  bool owns(std::string_view name) const;
  /// Takes a copy of a tensor that owns() its name. Fails with: malformed.
  Result<void> restore(const NamedTensor& from);
  void clear() { tensors_.clear(); }

 private:
  std::string name_;
  std::map<std::uint32_t, at::Tensor> tensors_;
};

/// Replaces what all `stores` hold by `state`. Fails with: malformed (a tensor that none of them owns, or not
/// float32); the stores are then empty.
Result<void> restore_stores(std::span<const NamedTensor> state, std::initializer_list<TensorStore*> stores);

}  // namespace weir::compressors
