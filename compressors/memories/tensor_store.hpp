#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "compressors/compressor.hpp"
#include "compressors/per_tensor.hpp"

namespace weir::compressors {

/// State of memories and compressors: one float32 tensor per tensor of the model, created as zeros when first asked
/// for. It lies where the gradient lay that it was asked for last. Saved under "<name>.<position of the tensor>".
class TensorStore {
 public:
  explicit TensorStore(std::string name) : name_(std::move(name)) {}

  /// The tensor for `round.tensor`, wherever it lies; created in the host's memory if missing. Fails with:
  /// invalid_argument (it has another shape).
  Result<at::Tensor> of(const Round& round, at::IntArrayRef shape);
  /// The same, in the shape of `like` and beside it: it is moved if that lies somewhere else than the last one. On a
  /// device in the calling thread's current stream.
  Result<at::Tensor> of(const Round& round, const at::Tensor& like);

  /// of() for several rounds: in the shapes of some tensors, wherever they lie, or also beside those. On failure `out`
  /// has those before the one that failed.
  Result<void> all_of(std::span<const Round> rounds, std::span<const at::Tensor> shapes, std::vector<at::Tensor>& out);
  Result<void> all_beside(std::span<const Round> rounds, std::span<const at::Tensor> like,
                          std::vector<at::Tensor>& out);

  /// The tensor for `round.tensor`, if there is one.
  std::optional<at::Tensor> find(const Round& round) const;
  /// Replaces the tensor for `round.tensor`, whatever shape it had.
  void put(const Round& round, at::Tensor tensor) { tensors_.of(round) = std::move(tensor); }

  /// Adds `values` to the entries of the tensor for `round.tensor` from `first` on. Returns false, and does nothing, if
  /// there is none, or it does not have them: one from a checkpoint has any shape, until of() refuses it.
  bool add(const Round& round, std::uint64_t first, std::span<const float> values) const;

  /// Sets the tensor for `round.tensor` to zero, if there is one.
  void clear(const Round& round);

  void save(std::vector<NamedTensor>& to) const;

  /// Whether `name` is the name of a tensor of this store.
  bool owns(std::string_view name) const;
  /// Stores a copy of `from`, whose name owns() accepts. Fails with: malformed.
  Result<void> restore(const NamedTensor& from);
  void clear() { tensors_.clear(); }

 private:
  Result<at::Tensor> checked(at::Tensor& tensor, const Round& round, at::IntArrayRef shape, at::Device device) const;

  std::string name_;
  PerTensor<at::Tensor> tensors_;
};

/// Replaces the contents of all `stores` by `state`. Fails with: malformed (a tensor that no store owns or that is not
/// float32); the stores are then empty.
Result<void> restore_stores(std::span<const NamedTensor> state, std::initializer_list<TensorStore*> stores);

}  // namespace weir::compressors
