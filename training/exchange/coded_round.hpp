#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/function_ref.hpp"
#include "base/result.hpp"
#include "collectives/collective.hpp"
#include "compressors/catalog.hpp"
#include "training/exchange/aggregation.hpp"
#include "training/exchange/buckets.hpp"
#include "training/exchange/gathered_mean.hpp"
#include "training/exchange/host_copies.hpp"
#include "training/exchange/mean.hpp"
#include "training/exchange/shares.hpp"
#include "training/exchange/step.hpp"

namespace weir::training {

/// The numbers that a pass which is not gathered adds up, or takes the largest of.
collectives::Element element_of(compressors::Reduction reduction);

/// What the rounds of all buckets share.
struct RoundSetting {
  std::span<const NamedTensor> parameters;
  std::string_view values_name = "gradient";  ///< in errors
  std::span<const at::Tensor> values;         ///< by parameter: of the step; undefined: zero
  std::span<Mean> means;                      ///< by parameter
  compressors::Compression& compression;
  GatheredMean& gathered_mean;
  std::uint64_t seed = 0;
  compressors::TrainingCourse course = {};
  Aggregation aggregation = Aggregation::mean;  ///< of what is not compressed
  std::uint32_t ranks = 1;
  /// Those who encode: all ranks or, in an exchange by hosts, the leader of each host, who encodes the sum of its
  /// host's gradients times host_share.
  std::uint32_t rank = 0;
  std::uint32_t world = 1;
  bool by_hosts = false;
  bool encodes = true;           ///< this rank is one of them
  float host_share = 1;          ///< number of hosts / number of ranks
  std::uint32_t owners = 0;      ///< how many of those who encode own a part of a bucket; 0: none
  bool regions = false;          ///< what they own are regions (SplitRound), not shares (OwnersRound)
  bool hops = false;             ///< what they own comes to them by hops (HopsRound)
  HostCopies* copies = nullptr;  ///< if the values come from a device
  bool sums_there = false;       ///< and are added up there, as far as they need neither memory nor code
  /// And by_hosts: the sums within a host are made, and its means copied, between the devices of its ranks.
  bool host_sums_there = false;

  /// As long as it exists, the calling thread works in the stream of the bucket of these parameters, if there are some
  /// and they are on a device.
  c10::OptionalStreamGuard in_stream_of(std::span<const std::uint32_t> of_bucket) const {
    const bool has_stream = copies != nullptr && !of_bucket.empty();
    return has_stream ? copies->in_stream_of(of_bucket.front()) : c10::OptionalStreamGuard();
  }

  compressors::Round round(const Step& step, std::uint32_t parameter) const {
    return {.seed = seed,
            .step = step.number,
            .epoch = step.epoch,
            .course = course,
            .learning_rate = step.learning_rate,
            .tensor = parameter,
            .rank = rank,
            .world = world,
            .share = step.share};
  }
  Error of_parameter(const Error& error, std::uint32_t parameter) const {
    return error.within(std::string(values_name) + " of " + parameters[parameter].name);
  }
};

/// Takes those tensors of a bucket that are encoded through a step: from their compensated gradients to the means that
/// the ranks agree on. Derived classes differ in who decodes whose payloads. Between its functions the caller carries
/// what they leave over the group, in each pass of the compressor:
///
///     encode(pass)
///     if the pass is summed:       all-reduce sums(pass)
///     if it is gathered by all:    all-gather payload() to gathered()
///     if it is gathered by owners: outgoing() to the owners, who receive incoming(); there combine()
///                                  and encode_combined(); combined() from the owners to gathered()
///     or, if they come by_hops():  for each hop: encode_hop() but for the first, swap hop_payload() with partner(),
///                                  which comes to incoming(), and add_hop(); then encode_combined() and so on
///     decode(pass)
class CodedRound {
 public:
  /// `pieces`: what is encoded on its own, in the order of the bucket's parameters. `first_piece`: random numbers of
  /// piece i are those of tensor first_piece + i; none: a piece is a parameter and has its number.
  CodedRound(const RoundSetting& setting, const Bucket& bucket, std::vector<Piece> pieces, bool by_owners,
             std::optional<std::uint32_t> first_piece);
  virtual ~CodedRound() = default;

  /// Begins a round of `parameters`, which are some of the bucket's. `there`: their means are made on the device that
  /// they are on.
  void begin(const Step& step, std::span<const std::uint32_t> parameters, bool there);
  bool makes_means_there() const { return there_; }

  std::span<const Piece> pieces() const { return pieces_; }

  /// Of the compressor; none if there are no tensors.
  std::span<const compressors::Reduction> passes() const { return passes_; }

  /// `gradients`: of the parameters, contiguous; used in pass 0.
  Result<void> encode(std::uint32_t pass, std::span<const at::Tensor> gradients);

  /// At the end of a round: a memory that keeps nothing has the gradients themselves encoded, and what they take is
  /// needed by the next forward pass.
  void let_gradients_go();

  /// What is reduced in a pass, and how.
  collectives::Buffer sums(std::uint32_t pass);
  collectives::ReduceOp operation(std::uint32_t pass) const;

  /// What is gathered in a pass, and where the part of each parameter ends in it or, by owners, in all that goes to
  /// them.
  BytesView payload() const { return payload_; }
  std::span<const std::size_t> payload_ends() const { return ends_; }
  collectives::Gathered& gathered() { return gathered_; }

  bool by_owners() const { return by_owners_; }
  /// What goes to each rank, by rank.
  virtual std::span<const BytesView> outgoing() { return {}; }
  collectives::Gathered& incoming() { return incoming_; }
  virtual Result<void> combine() { return {}; }
  virtual Result<void> encode_combined() { return {}; }
  virtual BytesView combined() const { return {}; }

  /// Whether payloads come to their owners by hops, and not straight; and by how many.
  virtual bool by_hops() const { return false; }
  virtual std::uint32_t hops() const { return 0; }
  virtual std::uint32_t partner(std::uint32_t /*hop*/) const { return 0; }
  /// Encodes what goes to the partner. For the first hop, encode() has.
  virtual Result<void> encode_hop(std::uint32_t /*hop*/) { return {}; }
  virtual BytesView hop_payload() const { return {}; }
  /// Adds what has come from the partner to what this rank has.
  virtual Result<void> add_hop(std::uint32_t /*hop*/) { return {}; }

  /// Takes the results of a pass. After the last one the means are there.
  Result<void> decode(std::uint32_t pass);

  /// Before a round in which these parameters of the bucket travel in another way: has the memory send what this rank
  /// keeps of them from round to round.
  void leave(const Step& step, std::span<const std::uint32_t> parameters);

  /// What this rank keeps from round to round besides compressor and memory. The tensors alias the live ones.
  virtual void save(std::vector<NamedTensor>& /*state*/) const {}
  /// Fails with: malformed (not what save() returned).
  virtual Result<void> restore(std::span<const NamedTensor> /*state*/) { return {}; }

 protected:
  /// A piece that is encoded in this step.
  struct CodedPiece {
    std::size_t piece = 0;  ///< index in pieces_
    std::size_t coded = 0;  ///< index in parameters_
    std::size_t begin = 0;  ///< of its payload in payload_
    std::size_t end = 0;
    std::size_t entries_begin = 0;  ///< among own_entries_[coded]
    std::size_t entries_end = 0;
  };

  /// Begins to encode all pieces, if they are on a device (Compressor::begin).
  Result<void> begin_encoding(std::uint32_t pass);
  /// Encodes what encode() has compensated.
  virtual Result<void> encode_compensated(std::uint32_t pass);
  /// Leaves what this rank keeps of a piece to the memory.
  virtual void hand_over(std::size_t /*piece*/, const compressors::Round& /*round*/) {}
  /// Takes what has been gathered in a pass; in the last one, makes means of it.
  virtual Result<void> decode_gathered(std::uint32_t pass) = 0;

  /// With what the memory has noted of the whole parameter's values.
  compressors::Round with_notes(compressors::Round round, std::uint32_t parameter) const;
  compressors::Round round_of(std::uint32_t parameter, std::uint32_t pass) const;
  compressors::Round round_of(const Piece& piece, std::uint32_t pass) const;
  std::uint32_t last_pass() const { return static_cast<std::uint32_t>(passes_.size() - 1); }
  compressors::Compressor& compressor() const { return *setting_.compression.compressor; }

  /// The mean of a parameter, where it is made.
  Mean& mean_of(std::uint32_t parameter) const {
    return there_ ? setting_.copies->means()[parameter] : setting_.means[parameter];
  }
  /// Whether what no rank has sent stays zero in a mean.
  bool has_sparse_means() const;
  /// Makes a mean zero, before the payloads' entries are added to it.
  Result<void> restart(Mean& mean) const;
  /// Has the compressor and the memory end the round of a tensor whose mean is there.
  Result<void> conclude(std::size_t coded, const compressors::Sent& sent);
  /// The means of this step's tensors that are made on a device are made together: zero before the first payload is
  /// read, and concluded after the last one.
  Result<void> begin_means_there();
  Result<void> conclude_all();
  /// Makes means of what the owners have sent: `take` puts the payload of a piece into the mean, which is zero before;
  /// `sent` is what this rank has sent of the pieces of one tensor.
  Result<void> decode_from_owners(FunctionRef<Result<void>(const CodedPiece&)> take,
                                  FunctionRef<compressors::Sent(std::span<const CodedPiece>)> sent);
  /// What this rank has encoded last of a piece; nothing if nobody needs it any more.
  BytesView own_payload(const CodedPiece& coded) const;
  Result<void> expect_all_taken() const;
  Error of_piece(const Error& error, const Piece& piece) const;

  const RoundSetting& setting_;
  const std::vector<Piece> pieces_;
  Step step_;
  std::vector<std::uint32_t> parameters_;            ///< of this step
  bool there_ = false;                               ///< in this step
  std::vector<at::Tensor> compensated_;              ///< by index
  std::vector<at::Tensor> views_;                    ///< by piece: of its compensated gradient
  std::vector<CodedPiece> coded_pieces_;             ///< of this step
  std::vector<compressors::Selection> own_entries_;  ///< by index: what a sparse compressor sent in the last pass
  compressors::Selection entries_;                   ///< of another rank or of one piece
  collectives::Gathered gathered_;
  collectives::Gathered incoming_;
  std::vector<BytesView> streams_;  ///< by rank: what is left of a gathered payload
  std::vector<BytesView> results_;  ///< by rank: of one tensor or piece
  Bytes payload_;                   ///< of all pieces
  std::vector<std::size_t> ends_;   ///< by index: where each tensor's payload ends in payload_

 private:
  /// Of what is encoded of a piece.
  compressors::Round round_to_encode(const Piece& piece, std::uint32_t pass) const;
  Result<void> encode(CodedPiece& coded, std::uint32_t pass, bool sparse);
  Result<void> take_sum(const CodedPiece& coded, BytesView sum, std::uint32_t pass);

  const bool by_owners_;
  const std::optional<std::uint32_t> first_piece_;
  compressors::Passes passes_;
  bool shows_gradients_ = false;            ///< compensated_ and views_ are the gradients themselves
  std::vector<compressors::Round> rounds_;  ///< of the tensors or pieces of one call
  Bytes own_sums_;                          ///< payload_ from before the sum overwrote it
};

/// Appends the entries of a piece that begins at entry `first` of its parameter to those of the parameter.
void append_entries(const compressors::Selection& entries, std::uint64_t first, compressors::Selection& to);
/// The same to the list of those of a mean.
void append_positions(const compressors::Selection& entries, std::uint64_t first, Mean& mean);

}  // namespace weir::training
