#pragma once

#include <ATen/core/Tensor.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace weir::compressors {

/// What a compressor or memory may know of the tensor and the round. Randomness and schedules are functions
/// of these alone, so a round can be repeated bit for bit, on any thread and any rank.
struct Round {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;    ///< optimizer steps done before this one
  double epoch = 0;          ///< passes over the data done, with fraction: warm-up schedules
  double epochs_total = 0;   ///< passes over the data that the training takes; 0: not known
  double learning_rate = 1;  ///< what the optimizer multiplies this step's mean by
  std::uint32_t tensor = 0;  ///< position of the tensor in the model
  std::uint32_t rank = 0;
  std::uint32_t world = 1;
  std::uint32_t pass = 0;  ///< which pass of the round this is, for compressors that have several
};

/// How the payloads of the ranks are brought together. A payload that is summed is a bare array of numbers, equally
/// long on every rank, whose sum decodes to the sum of what the ranks encoded. Of 16 bits they are divided by
/// Round::world before they are rounded, and multiplied again when they are decoded: the sum on the wire is then a mean
/// and stays within the range of the numbers.
enum class Reduction : std::uint8_t {
  sum,       ///< all-reduce of float32
  sum_fp16,  ///< all-reduce of IEEE half precision, which saturates
  sum_bf16,  ///< all-reduce of bfloat16
  max,       ///< all-reduce of float32 to the largest of each; not in a last pass
  gather,    ///< all-gather: each rank's payload (codecs/payload.hpp) is decoded on its own, in rank order
};

struct Traits {
  /// One entry per pass of a round; nearly everybody has one.
  std::vector<Reduction> passes = {Reduction::gather};
  bool lossless = false;       ///< decodes to the very floats that were encoded
  bool biased = true;          ///< the expectation of what is decoded is not what was encoded
  bool sparse = false;         ///< a payload carries some positions and says which (Compressor::support)
  bool stateful = false;       ///< keeps something between rounds (Compressor::save)
  bool selective = false;      ///< reads only entries that it sends: a NaN elsewhere is neither sent nor noticed
  bool votes = false;          ///< the ranks agree on something else than a mean (Compressor::conclude)
  bool owns_momentum = false;  ///< encodes a momentum of its own: the optimizer must apply none
  /// What the ranks agree on follows from the mean of what they encode and from the round, whatever each encodes by
  /// itself, up to the rounding of float32.
  bool mean_only = false;
};

/// Bits that one rank encodes per entry of a tensor: in passes that are summed, and in passes that are gathered.
struct WireBits {
  double summed = 0;
  double gathered = 0;

  /// Whether the ranks of a world send more in this way than by a ring all-reduce of float32. Of 2 (world - 1) / world
  /// times 32 bits per entry there; here it is as much of what is summed, and world - 1 times what is gathered.
  bool more_than_dense(std::uint32_t world) const { return 2 * summed + world * gathered > 2 * 32; }
};

/// Length of the warm-up at the beginning of a training: `epochs` epochs, which may be a fraction, and `steps` steps.
struct WarmupLength {
  double epochs = 0;
  std::uint64_t steps = 0;

  std::uint64_t in_steps(std::uint64_t steps_per_epoch) const {
    return static_cast<std::uint64_t>(std::ceil(epochs * static_cast<double>(steps_per_epoch))) + steps;
  }
};

/// A tensor of saved state. The name is unique within the object that saved it.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// Encodes one tensor's gradient for the wire. Owned by the exchange of one trainer, one object for all its
/// tensors; called by one thread at a time. A round of one tensor is, for each pass p of traits().passes:
///
///     encode(gradient, round with pass = p, out)
///     out of all ranks is reduced or gathered, as passes[p] says
///     absorb(results, round)
///
/// and then, with the results of the last pass:
///
///     decode_add(mean, 1 / world)    for the sum, or for each rank's payload in rank order
///     conclude(mean, round)
///
/// A tensor that it does not take (takes()) never comes here: its gradient is averaged as it is. One that goes dense in
/// a round (goes_dense()) does not come here in that round. All ranks have to come to the same answers without talking,
/// so both are functions of the parameters, the tensor's shape and the round alone; never of its rank, of data or of
/// state.
///
/// A one-pass compressor overrides do_encode and do_decode_add; what is common (shape, type, device) is
/// checked here. Between the last absorb and the next encode of the tensor, decode_add of what this rank itself encoded
/// in the last pass gives this rank's share of the mean: that is what a memory takes off.
class Compressor {
 public:
  Compressor() = default;
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;
  virtual ~Compressor() = default;

  virtual std::string_view name() const = 0;
  virtual Traits traits() const = 0;

  /// Whether tensors of this shape are compressed at all. By default those of two or more dimensions: biases and
  /// normalisation are too small to gain anything, and sensitive. A method whose result is not on the gradient's scale
  /// has to take every tensor, because one learning rate serves all.
  virtual bool takes(at::IntArrayRef shape) const { return shape.size() > 1; }

  /// What a round is expected to send of a tensor of this shape, without the few bytes of its head. Nothing if that
  /// depends on the data, or can never be more than the dense tensor.
  virtual std::optional<WireBits> expected_bits(at::IntArrayRef shape, const Round& round) const;

  /// Whether a tensor that it takes is averaged by a dense all-reduce in this round, instead of being encoded: where
  /// the parameters ask for it (wants_dense()), and where the payloads are expected to be larger than the dense tensor.
  /// The latter is not done with traits().votes: what the ranks would agree on is no mean.
  bool goes_dense(at::IntArrayRef shape, const Round& round) const;

  /// How long a training of `epochs_total` epochs compresses less than it does later.
  virtual WarmupLength warmup_length(double epochs_total) const;

  /// Appends the encoding of `gradient` to `out`. Any shape, also empty; a tensor that is not float32 or not
  /// contiguous is converted first. On failure `out` is as it was. Fails with: invalid_argument (NaN or
  /// infinity, naming the tensor's position), unsupported (2^32 entries or more).
  Result<void> encode(const at::Tensor& gradient, const Round& round, Bytes& out);

  /// Adds `weight` times the decoded tensor to `sum` (float32, contiguous, the gradient's shape). The payload
  /// is untrusted: at worst it fails, with `sum` partly added to, but never outside of it. Fails with:
  /// malformed, unsupported, invalid_argument (`sum` is not as described).
  Result<void> decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum);

  /// Takes what came of pass `round.pass`: one view for a sum or maximum, one per rank for a gather. For compressors
  /// with several passes, or with state that all ranks share.
  virtual Result<void> absorb(std::span<const BytesView> results, const Round& round);

  /// Makes of the mean of what the ranks sent what they agree on: of signs, the majority's. For traits().votes.
  virtual void conclude(at::Tensor& mean, const Round& round);

  /// Gives the positions, ascending, that a payload for `entries` entries carries. For traits().sparse.
  /// Fails with: malformed, unsupported.
  virtual Result<void> support(BytesView payload, const Round& round, std::uint64_t entries,
                               std::vector<std::uint32_t>& positions);

  /// The least known b such that E|x - decode(encode(x))|^2 <= b |x|^2 for every x of that many entries: 0 for
  /// lossless, 1 - k/n for top-k. Of a biased compressor a b < 1 is its contraction, 1 - delta; of an unbiased one
  /// any b is its variance factor. Infinity if nothing holds for every x.
  virtual double error_bound(std::uint64_t entries, const Round& round) const = 0;

  /// State for a checkpoint. The tensors alias the live ones: write them out before the next round.
  virtual std::vector<NamedTensor> save() const { return {}; }
  /// Takes copies of what save() gave. Fails with: malformed (not what save() gives).
  virtual Result<void> restore(std::span<const NamedTensor> state);

 protected:
  /// Whether the parameters ask for a dense round, whatever it costs.
  virtual bool wants_dense(const Round& round) const;

  /// `gradient` is float32 and contiguous, with fewer than 2^32 entries.
  virtual Result<void> do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) = 0;
  virtual Result<void> do_decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum) = 0;
};

}  // namespace weir::compressors
