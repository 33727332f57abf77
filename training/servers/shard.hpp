#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "training/optimizers/optimizer.hpp"
#include "training/servers/rule.hpp"
#include "training/servers/tensor_coder.hpp"

namespace weir::training::servers {

/// The tensors that a server owns, the optimizer's state for them, and what each worker has of them.
class Shard {
 public:
  /// A push, as far as it is not read.
  struct Pushed {
    Turn turn;
    Reader tensors;
    std::vector<std::size_t> bytes = {};  ///< of each owned tensor, as far as they are read
  };

  /// `parameters`: all of the model, which the optimizer changes. `own`: which of them this server owns.
  Shard(std::vector<NamedTensor> parameters, std::vector<std::uint32_t> own, std::unique_ptr<Optimizer> optimizer,
        const compressors::Compression& compression, const CodingSetting& setting);

  /// Has the optimizer apply the mean of some pushes. Afterwards their readers are where their tensors end. Fails with:
  /// malformed, unsupported; names rank and tensor. The model is then unchanged.
  Result<void> apply(std::span<Pushed> pushes, double learning_rate, const PushRule& rule);

  /// Appends what `turn.worker` lacks of the model, all that compression lets through. Returns the bytes of each owned
  /// tensor.
  Result<std::vector<std::size_t>> answer(const Turn& turn, Bytes& out);

  /// The tensors that are owned, in the order of the model. They alias the live ones.
  const std::vector<NamedTensor>& tensors() const { return own_tensors_; }
  const std::vector<std::uint32_t>& indices() const { return own_; }
  Optimizer& optimizer() { return *optimizer_; }
  /// A worker's copies of them.
  std::vector<NamedTensor> copies_of(std::uint32_t worker) const;

  /// For a checkpoint: how many entries the next answer to each worker has, because so many have come.
  NamedTensor save_pushed() const;
  /// Finds them again in what a checkpoint has of this server. Fails with: malformed.
  Result<void> restore_pushed(std::span<const NamedTensor> state);

 private:
  Error of(const Error& error, std::size_t index, std::uint32_t rank) const;

  const std::vector<std::uint32_t> own_;
  std::vector<NamedTensor> own_tensors_;
  std::unique_ptr<Optimizer> optimizer_;
  TensorCoder coder_;
  std::vector<Mean> means_;                      ///< by index
  std::vector<std::vector<at::Tensor>> copies_;  ///< by worker and index
  /// By worker and index: entries that have come from all workers since this one's last answer.
  std::vector<std::vector<std::uint64_t>> pushed_;
};

}  // namespace weir::training::servers
