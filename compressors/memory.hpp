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

namespace weir::compressors {

/// What a memory has to know of the training it serves.
struct MemorySetting {
  double momentum = 0;  ///< the optimizer's, for memories that take momentum over
  bool nesterov = false;
};

struct MemoryTraits {
  /// The optimizer's momentum is applied here, before compression: the optimizer must not apply it to the gradient
  /// again, only to its weight-decay term.
  bool owns_momentum = false;
  /// update() looks at the payload. If not, it may be given none (an all-reduce may have overwritten it).
  bool reads_payload = false;
  /// This memory has a momentum of its own, whatever the optimizer's: the optimizer must apply none.
  bool replaces_momentum = false;
};

/// What one rank remembers between rounds so that a lossy compressor converges: the part not sent yet,
/// momentum. Owned by the exchange of one trainer, one object for all its tensors; called by one thread at a
/// time. State is made when a tensor (Round::tensor) is first seen. A round of a compressed tensor is
///
///     encode(compensate(gradient)) -> exchange -> decode -> conclude -> update(own payload, mean)
///
/// A round in which such a tensor goes dense (Compressor::goes_dense) is one whose compressor loses nothing:
///
///     compensate_dense(gradient) -> average -> average_dense(mean)
///
/// and of a tensor that is never compressed (Compressor::takes): average -> average_dense(mean). Rounds of both kinds
/// may follow on each other in any order.
class Memory {
 public:
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  virtual ~Memory() = default;

  virtual std::string_view name() const = 0;
  virtual MemoryTraits traits() const = 0;

  /// Gives what to encode in the place of `gradient` (float32, contiguous): the gradient itself or a tensor
  /// of this memory, valid and unchanged until update(). `gradient` is not written to. Fails with:
  /// invalid_argument (the shape differs from the tensor's last one).
  virtual Result<at::Tensor> compensate(const at::Tensor& gradient, const Round& round) = 0;

  /// The round is over: `payload` is what this rank encoded in its last pass, `mean` what the ranks agreed on, which
  /// this may turn into what the optimizer applies, in the same way on every rank.
  virtual Result<void> update(const Round& round, Compressor& compressor, BytesView payload, at::Tensor& mean) = 0;

  /// Gives what to average in the place of `gradient` in a round in which the tensor goes dense; otherwise like
  /// compensate(), which it is by default: what is owed is sent, too.
  virtual Result<at::Tensor> compensate_dense(const at::Tensor& gradient, const Round& round);

  /// Turns the average of a tensor that was sent dense into what the optimizer applies, in place, in the same way on
  /// every rank; if there was a compensate_dense(), nothing is owed any more.
  virtual Result<void> average_dense(at::Tensor& mean, const Round& round);

  /// State for a checkpoint. The tensors alias the live ones: write them out before the next round.
  virtual std::vector<NamedTensor> save() const { return {}; }
  /// Replaces the state by copies of what save() gave. Fails with: malformed (not what save() gives).
  virtual Result<void> restore(std::span<const NamedTensor> state);
};

}  // namespace weir::compressors
