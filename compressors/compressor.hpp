#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <boost/container/static_vector.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "compressors/kernels/selection/selection.hpp"
#include "cuda/kernels/bins.hpp"

namespace weir::compressors {

namespace device {
struct ToAdd;
}

/// What a compressor may know about the whole training.
struct TrainingCourse {
  double epochs = 0;        ///< passes over the data; 0: not known
  bool rate_falls = false;  ///< whether the learning rate comes down in it
};

/// What a compressor or memory may know about the tensor and the round. Random draws and schedules depend on nothing
/// else, so a round can be repeated bit for bit, on any thread and any rank.
struct Round {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;  ///< optimizer steps done before this one
  double epoch = 0;        ///< passes over the data done so far, with fraction; for warm-up schedules
  TrainingCourse course = {};
  double learning_rate = 1;  ///< the factor by which the optimizer multiplies this step's mean
  std::uint32_t tensor = 0;  ///< position of the tensor in the model
  std::uint32_t rank = 0;
  std::uint32_t world = 1;
  std::uint32_t pass = 0;  ///< the pass of the round, for compressors that have several
  /// Gathered payloads do not go to all ranks: the owner of a share of the tensor gets those for it and encodes their
  /// mean again. A rank then sends and receives two payloads, not world - 1.
  bool by_owners = false;
  /// What takes the place of the mean is the part of this rank alone, as where workers push to servers.
  bool alone = false;
  /// What is encoded of the entries that the compressor chooses: that share, of largest magnitude; for traits().thins.
  double share = 1;
  /// Of the tensor that is encoded, if its memory has noted them (Memory::peaks): they change nothing but how long it
  /// takes.
  Peaks peaks = {};
  const cuda::Bins* bins = nullptr;  ///< of a tensor on a device, the same, in its memory (Memory::bins)
};

/// How the payloads of the ranks are combined. A summed payload is a bare array of numbers, equally long on every rank;
/// the sum of the payloads decodes to the sum of what the ranks encoded. 16-bit numbers are divided by Round::world
/// before they are rounded, and multiplied by it when they are decoded: the sum on the wire is then a mean and stays
/// within the range of the format.
enum class Reduction : std::uint8_t {
  sum,       ///< all-reduce of float32
  sum_fp16,  ///< all-reduce of IEEE half precision, which saturates
  sum_bf16,  ///< all-reduce of bfloat16
  max,       ///< all-reduce of float32 to the largest of each; not in a last pass
  gather,    ///< all-gather: each rank's payload (codecs/payload.hpp) is decoded on its own, in rank order
};

/// How the results of each pass of a round are combined.
using Passes = boost::container::static_vector<Reduction, 4>;

struct Traits {
  Passes passes = {Reduction::gather};  ///< most compressors have one
  bool lossless = false;                ///< decodes to exactly the floats that were encoded
  bool biased = true;                   ///< the expectation of the decoded tensor is not the encoded tensor
  bool sparse = false;     ///< a payload carries only some positions and says which (Compressor::read_entries)
  bool stateful = false;   ///< keeps state between rounds (Compressor::save)
  bool selective = false;  ///< reads only the entries that it sends: a NaN elsewhere is neither sent nor noticed
  /// Its state only makes the next rounds better: the training goes on without it if all ranks forget it together.
  bool begins_anew = false;
  /// What it sends are entries that it chooses, each on its own: they can go in parts (Compressor::select_entries,
  /// write_part). It has one pass, gathered, and does not vote.
  bool selects = false;
  bool thins = false;          ///< of the entries that it chooses it sends a smaller share if it is to (Round::share)
  bool votes = false;          ///< what the ranks agree on is not a mean (Compressor::conclude)
  bool owns_momentum = false;  ///< applies a momentum of its own before encoding: the optimizer must apply none
  /// Draws the same entries for whoever encodes in a round, and scales them by what it leaves out: of a mean of what it
  /// has sent, this would be done twice.
  bool scales_draw = false;
  /// What the ranks agree on is a function of the round and of the mean of what they encode, up to float32 rounding,
  /// however much single ranks differ from that mean.
  bool mean_only = false;
  /// What it encodes on a device (Compressor::codes_on) has the bits that it has on the processor; else it stands for
  /// nearly the same.
  bool exact_on_devices = true;
  /// Why it has no sense to encode gradients on a device, so that they come down; empty if it has.
  std::string_view device_misfit = {};

  /// Whether it fits an exchange by owners (Round::by_owners): payloads are only summed, or the mean of what the ranks
  /// encoded can be encoded in the same way, and by one rank alone.
  bool fits_owners() const {
    const auto gathers = std::ranges::count(passes, Reduction::gather);
    const auto largest = std::ranges::count(passes, Reduction::max);
    if (gathers == 0) return true;
    return !stateful && !scales_draw && gathers == 1 && passes.back() == Reduction::gather &&
           gathers + largest == std::ssize(passes);
  }
  /// Whether it fits an exchange in which the owner of a region gets the chosen entries that lie there: payloads are
  /// only summed, or the entries can go in parts.
  bool fits_split() const { return selects || std::ranges::count(passes, Reduction::gather) == 0; }
  /// Whether only the compressor gives the means their scale, or what it has not sent is the momentum of the training:
  /// plain means cannot take its place.
  bool must_be_coded() const { return votes || owns_momentum; }
  /// Whether it fits an exchange by hops, in which sums of what some ranks have are encoded anew: payloads are only
  /// summed, or one pass sends every entry of whatever it is given. Another limit is how large its error may be
  /// (no_hops()).
  bool fits_hops() const {
    if (std::ranges::count(passes, Reduction::gather) == 0) return true;
    return passes.size() == 1 && !stateful && !sparse && !votes && !owns_momentum;
  }
};

/// Bits that one rank encodes per entry of a tensor, in summed and in gathered passes.
struct WireBits {
  double summed = 0;
  double gathered = 0;

  /// True if a rank sends more in this way than in a ring all-reduce of float32, which sends 2 (world - 1) / world
  /// times 32 bits per entry. Summed bits are sent with the same factor, gathered bits world - 1 times, or by owners
  /// with the same factor.
  bool more_than_dense(std::uint32_t world, bool by_owners) const {
    return 2 * summed + (by_owners ? 2 : world) * gathered > 2 * 32;
  }
};

/// Length of the warm-up at the beginning of a training: until so many epochs and so many rounds are done.
struct WarmupLength {
  double epochs = 0;  ///< may be a fraction
  std::uint64_t rounds = 0;
};

/// A tensor of saved state. The name is unique within the object that saved it.
struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// Encodes gradients for the wire. The exchange of each trainer owns one object for all its tensors. One thread at a
/// time encodes (encode, select_entries, write_part), and meanwhile another may take the results of other tensors (all
/// other functions): what both use is kept by tensor (PerTensor). A round of one tensor consists, for each pass p of
/// traits().passes, of:
///
///     encode(gradient, round with pass = p, out)
///     `out` of all ranks is reduced or gathered, as passes[p] says
///     absorb(results, round)
///
/// and then, with the results of the last pass, of:
///
///     decode_add(mean, 1 / world)    for the sum, or for each rank's payload in rank order
///     conclude(mean, round)
///
/// A tensor that the compressor does not take (takes()) never comes here: its gradient is averaged as it is. A tensor
/// that goes dense in a round (goes_dense()) is not encoded in that round. All ranks must reach the same answers
/// without communication, so both functions depend only on the parameters, the tensor's shape and the round; never on
/// the round's rank, on data or on state.
///
/// A one-pass compressor overrides do_encode and do_decode_add; the common checks (shape, type, device) are done here.
/// Between the last absorb and the next encode of a tensor, decode_add of this rank's own payload from the last pass
/// adds this rank's share of the mean: that is what error feedback subtracts.
class Compressor {
 public:
  Compressor() = default;
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;
  virtual ~Compressor() = default;

  virtual std::string_view name() const = 0;
  virtual Traits traits() const = 0;

  /// Whether tensors of this shape are compressed at all: those of two or more dimensions, and vectors that are long
  /// enough.
  bool takes(at::IntArrayRef shape) const;

  /// The entries that a tensor of fewer than two dimensions must have to be compressed. Most biases and parameters of
  /// normalisations are too small to gain anything, and sensitive; the bias of a wide layer, sent as it is, can take
  /// more of the line than the layer's compressed matrix. A method whose result is not on the gradient's scale must
  /// take every tensor (0), because one learning rate serves all; one of matrices has nothing to gain (never_vectors).
  virtual std::uint64_t vector_entries_min() const { return 4096; }
  static constexpr std::uint64_t never_vectors = std::numeric_limits<std::uint64_t>::max();

  /// The bits that the passes of a round are expected to send for each entry of a tensor of this shape, without the few
  /// bytes of the header; infinity if it is to go dense among any number of ranks. They decide whether it does
  /// (goes_dense()), and how much longer the payloads of a large tensor count than those of its first rows, which are
  /// measured for a plan. Nothing where they depend on the data or are the same share of any dense tensor: it then does
  /// not go dense for its size, and its payloads count as many times longer as it has more entries.
  virtual std::optional<WireBits> expected_bits(at::IntArrayRef shape, const Round& round) const;

  /// Whether a tensor that the compressor takes is averaged by a dense all-reduce in this round instead of being
  /// encoded. It is if the parameters ask for it (wants_dense()), or if the payloads are expected to be larger than the
  /// dense tensor. The second rule does not apply with traits().votes, where the result is not a mean.
  bool goes_dense(at::IntArrayRef shape, const Round& round) const;

  /// The length of the warm-up, in which the training is compressed less than later.
  virtual WarmupLength warmup_length(const TrainingCourse& course) const;

  /// Whether it encodes tensors that lie there where they are, with the payload that they would have on the processor,
  /// or nearly that one (Traits::exact_on_devices). By default those on the processor. On another device encode() and
  /// select_entries() work in the calling thread's current stream, and wait for it (compressors/device).
  virtual bool codes_on(at::Device device) const { return device.is_cpu(); }

  /// Whether decode_add() and conclude() work on tensors that lie there, with the processor's bits: then the mean of
  /// what ranks have sent can be made there. By default, of compressors that code there, those whose payloads carry
  /// some entries only: they are read on the host, and only they go up.
  virtual bool decodes_on(at::Device device) const;

  /// If it does nothing else than to send each entry, divided by the number of ranks, as a number of 16 bits that is
  /// summed: the type of that number. Then what the ranks send can be added up without encode() and decode_add().
  virtual std::optional<at::ScalarType> sent_numbers() const { return std::nullopt; }

  /// Begins on a device what encode() or select_entries() of these tensors and rounds will wait for there, in the
  /// calling thread's current stream: who encodes several tensors begins all of them first, so that the device works
  /// while the host does, and takes them in as few launches as one. The tensors must not change until they are encoded.
  /// Fails like encode(), but for what values are.
  Result<void> begin(std::span<const at::Tensor> gradients, std::span<const Round> rounds);

  /// Appends the encoding of `gradient` to `out`. Accepts any shape, also empty; a tensor that is not float32 or not
  /// contiguous is converted first. If `own` is given, it receives what read_entries() would read from the payload; for
  /// traits().sparse. On failure `out` is unchanged. Fails with: invalid_argument (not a floating-point tensor where
  /// codes_on() says; NaN or infinity, naming the entry), unsupported (2^32 entries or more), internal (on
  /// a device).
  Result<void> encode(const at::Tensor& gradient, const Round& round, Bytes& out, Selection* own = nullptr);

  /// Chooses the entries of `gradient` that encode() would send: their positions, ascending, and the values that they
  /// have there. In the place of encode(), for traits().selects. Fails like encode().
  Result<void> select_entries(const at::Tensor& gradient, const Round& round, Selection& chosen);

  /// Appends a payload of entries of a part of a tensor to `out`. The part has `entries` entries, positions ascend and
  /// count from its first. Replaces the values by those that read_part() finds. For traits().selects.
  virtual void write_part(Selection& chosen, std::uint32_t entries, Bytes& out);
  /// Reads a payload of write_part() for a part of `entries` entries; it is untrusted. Fails with: malformed,
  /// unsupported.
  virtual Result<void> read_part(BytesView payload, std::uint32_t entries, Selection& out);

  /// Adds `weight` times the decoded tensor to `sum` (float32, contiguous, the gradient's shape). The payload is
  /// untrusted: an invalid one fails and may leave `sum` partly updated, but nothing is written outside of it. `sum`
  /// may lie on a device where codes_on() says, and gets the processor's bits where decodes_on() says or if `weight` is
  /// 1 or -1; only a sum of 16-bit numbers is waited for. Fails with: malformed, unsupported, invalid_argument (`sum`
  /// is not as described), internal (on a device).
  Result<void> decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum);

  /// Adds `weight` times the decoded payload of each rank to `sum`, of a last pass that gathers: payloads[r] is that of
  /// rank r, whatever round.rank is. Each entry of the sum is added up in rank order, as by one decode_add() after the
  /// other, on any number of threads. `sum` may lie where decodes_on() says. Fails with what decode_add() fails with;
  /// the context names the rank.
  Result<void> decode_add_ranks(std::span<const BytesView> payloads, const Round& round, float weight, at::Tensor& sum);

  /// decode_add() of several payloads together. It says what is wrong with a payload and, if `sum` lies on a device and
  /// the compressor has a use for that, appends to `waiting` what is to be added, instead of adding it.
  Result<void> decode_add_later(BytesView payload, const Round& round, float weight, at::Tensor& sum,
                                std::vector<device::ToAdd>& waiting);
  /// Adds what waits, in as few launches as for one tensor, to each sum in its order. The payloads must still be there.
  /// Fails with: internal (on a device).
  virtual Result<void> decode_add_all(std::vector<device::ToAdd> waiting);

  /// Accepts the result of pass `round.pass`: one view for a sum or maximum, one per rank for a gather. Overridden by
  /// compressors with several passes, or with state that all ranks share.
  virtual Result<void> absorb(std::span<const BytesView> results, const Round& round);

  /// Turns the mean of what the ranks sent into what they agree on, in place; for signs, the majority. For
  /// traits().votes. Fails with: internal (on a device).
  virtual Result<void> conclude(at::Tensor& mean, const Round& round);
  /// conclude() of several means, which lie on the same device.
  virtual Result<void> conclude_all(std::span<at::Tensor> means, std::span<const Round> rounds);

  /// Reads the entries that a payload for a tensor of `entries` entries carries: their positions, strictly ascending,
  /// and the values that they are decoded to. Several threads may read payloads at the same time. For traits().sparse.
  /// Fails with: malformed, unsupported.
  virtual Result<void> read_entries(BytesView payload, const Round& round, std::uint64_t entries, Selection& out) const;

  /// The smallest known b such that E|x - decode(encode(x))|^2 <= b |x|^2 for every x of that many entries: 0 for
  /// lossless, 1 - k/n for top-k. For a biased compressor, b < 1 is its contraction, 1 - delta; for an unbiased one, b
  /// is its variance factor. Infinity if no bound holds for every x.
  virtual double error_bound(std::uint64_t entries, const Round& round) const = 0;

  /// State for a checkpoint. The tensors alias the live ones and must be written out before the next round.
  virtual std::vector<NamedTensor> save() const { return {}; }
  /// Restores the state from copies of what save() returned. Fails with: malformed (not a state from save()).
  virtual Result<void> restore(std::span<const NamedTensor> state);

 protected:
  /// Whether the parameters ask for a dense round, regardless of the payload's size.
  virtual bool wants_dense(const Round& round) const;

  /// Of these, `gradient` is float32 and contiguous, with fewer than 2^32 entries. Those of do_begin() lie on a device,
  /// and none is empty.
  virtual Result<void> do_begin(std::span<const at::Tensor> gradients, std::span<const Round> rounds);
  virtual Result<void> do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) = 0;
  virtual Result<void> do_select(const at::Tensor& gradient, const Round& round, Selection& chosen);
  /// As read_entries(), for the payload that do_encode() has just written.
  virtual Result<void> own_entries(BytesView payload, const Round& round, std::uint64_t entries, Selection& own);
  virtual Result<void> do_decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum) = 0;
  /// The same for a sum on a device. By default, of a sparse payload the entries are brought up and added as
  /// read_entries() has them; else do_decode_add() is called, which takes such a sum where decodes_on() says, and what
  /// it decodes on the host is brought up where it does not.
  virtual Result<void> do_decode_add_on_device(BytesView payload, const Round& round, float weight, at::Tensor& sum);
  /// decode_add_later(), for a sum on a device. By default it adds at once.
  virtual Result<void> do_decode_add_later(BytesView payload, const Round& round, float weight, at::Tensor& sum,
                                           std::vector<device::ToAdd>& waiting);
  virtual Result<void> do_decode_add_ranks(std::span<const BytesView> payloads, const Round& round, float weight,
                                           at::Tensor& sum);

 private:
  /// The gradient as do_encode() takes it.
  Result<at::Tensor> prepared(const at::Tensor& gradient, const Round& round) const;
};

}  // namespace weir::compressors
