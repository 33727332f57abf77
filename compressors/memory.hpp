#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "compressors/compressor.hpp"
#include "compressors/sent.hpp"

namespace weir::compressors {

class TensorStore;

/// The settings of the training that a memory needs.
struct MemorySetting {
  double momentum = 0;  ///< the optimizer's momentum, for memories that apply it themselves
  bool nesterov = false;
};

struct MemoryTraits {
  /// This memory applies the optimizer's momentum, before compression: the optimizer must not apply it to the gradient
  /// again, only to its weight-decay term.
  bool owns_momentum = false;
  /// update() reads what was sent. If false, update() may get an empty payload (an all-reduce may have overwritten it).
  bool reads_sent = false;
  /// update() turns the mean into something else, which it keeps and to which it adds the next one. If false, what no
  /// rank has sent stays zero in the mean.
  bool changes_mean = false;
  /// What it keeps is what the mean of all ranks leaves of the rank's gradient, and not what was sent leaves of it.
  bool reckons_with_mean = false;
  /// What it keeps is owed to the weights: of another learning rate it is multiplied by the last one and divided by the
  /// new one, so that it moves them as far.
  bool follows_learning_rate = false;
  /// This memory has a momentum of its own, whatever the optimizer's: the optimizer must apply none.
  bool replaces_momentum = false;
};

/// What one rank keeps between rounds so that training with a lossy compressor converges: the part of the gradient not
/// sent yet, momentum. The exchange of each trainer owns one object for all its tensors. One thread at a time
/// compensates, and meanwhile another may update other tensors. A tensor's state (Round::tensor) is created when the
/// tensor is first seen. A round of a compressed tensor is
///
///     encode(compensate(gradient)) -> exchange -> decode -> conclude -> update(sent, mean)
///
/// In a round in which such a tensor goes dense (Compressor::goes_dense) nothing is lost:
///
///     compensate_dense(gradient) -> average -> average_dense(mean)
///
/// A round of a tensor that is never compressed (Compressor::takes) is average -> average_dense(mean). Rounds of both
/// kinds may follow each other in any order.
class Memory {
 public:
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  virtual ~Memory() = default;

  virtual std::string_view name() const = 0;
  virtual MemoryTraits traits() const = 0;

  /// Whether it takes gradients that lie there where they are, with the bits that it would have on the processor. By
  /// default those on the processor. On another device everything below works in the calling thread's current stream
  /// (compressors/device). Gradients of a tensor may lie on the processor in one round and on a device in the next.
  /// The mean lies there, too, or on the processor.
  virtual bool codes_on(at::Device device) const { return device.is_cpu(); }

  /// Returns the tensor to encode in place of `gradient` (float32, contiguous): the gradient itself or a tensor of this
  /// memory, which stays valid and unchanged until update(). `gradient` is not written to. Fails with: invalid_argument
  /// (the shape differs from the tensor's previous one).
  virtual Result<at::Tensor> compensate(const at::Tensor& gradient, const Round& round) = 0;
  /// The same of several tensors, all on one device: `out` becomes what compensate() returns for each. A memory may
  /// take them there in as few launches as one. On failure `out` has what came before the tensor that failed, or all.
  virtual Result<void> compensate_all(std::span<const at::Tensor> gradients, std::span<const Round> rounds,
                                      std::vector<at::Tensor>& out);

  /// The peaks of the tensor that compensate() has returned for round.tensor, until that tensor's update(). Empty if
  /// this memory does not note them.
  virtual Peaks peaks(const Round& round) const;
  /// The same of a tensor on a device: how many entries have each upper part of their magnitudes, in its memory. Null
  /// if this memory does not count them.
  virtual const cuda::Bins* bins(const Round& round) const;

  /// Ends the round: `sent` is what this rank sent, `mean` what the ranks agreed on. A memory with
  /// traits().changes_mean turns `mean` into what the optimizer applies, in the same way on every rank.
  virtual Result<void> update(const Round& round, const Sent& sent, at::Tensor& mean) = 0;
  /// The same of several tensors, as compensate_all().
  virtual Result<void> update_all(std::span<const Round> rounds, std::span<const Sent> sent,
                                  std::span<at::Tensor> means);

  /// What this rank has not sent yet and will add to what it sends, to be read and changed between rounds; null if this
  /// memory has nothing of the kind.
  virtual TensorStore* unsent() { return nullptr; }
  /// The learning rates in whose units unsent() is, a number for each tensor, to be read and changed between rounds;
  /// zero: of none yet. They are the same on all ranks that encode. Null without traits().follows_learning_rate.
  virtual TensorStore* unsent_rates() { return nullptr; }
  /// Has this rank send `values`, too: they belong to the entries of round.tensor from `first` on. By default they are
  /// added to unsent(). Returns false, and does nothing, if this memory has no place for them.
  virtual bool add_unsent(const Round& round, std::uint64_t first, std::span<const float> values);
  /// Whether it has a place for them.
  virtual bool takes_unsent() { return unsent() != nullptr; }
  /// The momentum from which this rank adds to unsent(), to be read and changed between rounds. Of a tensor of which
  /// unsent() has nothing, as it has only gone dense so far, it is the same on all ranks that encode, and has to stay
  /// so. Null if this memory has none.
  virtual TensorStore* momenta() { return nullptr; }

  /// Returns the tensor to average in place of `gradient` in a round in which the tensor goes dense. Otherwise like
  /// compensate(), which it calls by default, so that the residual is sent, too.
  virtual Result<at::Tensor> compensate_dense(const at::Tensor& gradient, const Round& round);

  /// Turns the average of a tensor that was sent dense into what the optimizer applies, in place, in the same way on
  /// every rank. After a compensate_dense(), nothing is left to be sent later.
  virtual Result<void> average_dense(at::Tensor& mean, const Round& round);
  /// The same of several tensors, as compensate_all().
  virtual Result<void> average_dense_all(std::span<at::Tensor> means, std::span<const Round> rounds);

  /// State for a checkpoint. The tensors alias the live ones and must be written out before the next round.
  virtual std::vector<NamedTensor> save() const { return {}; }
  /// Replaces the state by copies of what save() returned. Fails with: malformed (not a state from save()).
  virtual Result<void> restore(std::span<const NamedTensor> state);

 protected:
  /// As compensate(), by compensate_all() of one tensor.
  Result<at::Tensor> compensate_by_all(const at::Tensor& gradient, const Round& round);
};

}  // namespace weir::compressors
