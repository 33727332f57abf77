#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/exchange/buckets.hpp"
#include "actors/exchange/mean.hpp"
#include "actors/exchange/owner.hpp"
#include "actors/exchange/shares.hpp"
#include "actors/exchange/step.hpp"
#include "base/bytes.hpp"
#include "base/result.hpp"
#include "collectives/collective.hpp"
#include "compressors/catalog.hpp"

namespace weir::actors {

using compressors::NamedTensor;

/// What the rounds of all buckets share.
struct RoundSetting {
  std::span<const NamedTensor> parameters;
  std::span<Mean> means;  ///< by parameter
  compressors::Compression& compression;
  std::uint64_t seed = 0;
  double epochs_total = 0;  ///< passes over the data in the whole training; 0: not known
  std::uint32_t rank = 0;
  std::uint32_t world = 1;
  std::uint32_t owners = 0;  ///< in an exchange by owners, the number of ranks that are; otherwise 0
};

/// Takes the gradients of one bucket through a step. It has no threads and knows no network: between its functions the
/// caller carries what they leave in dense(), payload() or sums() over the group.
///
///     begin(step)
///     if dense() is not empty:   gather_dense()   all-reduce dense() to the sum   conclude_dense()
///     for each pass:             encode(pass)     all-reduce sums(pass) or all-gather payload()    decode(pass)
///
/// In an exchange by owners, payloads are not gathered by all:
///
///                                encode(pass)     send outgoing() to the owners
///                                combine()        gather combined() from the owners               decode(pass)
///
/// Everything but begin() calls the compressor and the memory, which serve one round at a time.
class BucketRound {
 public:
  /// `votes`: the bucket carries one float more, for the votes. `first_piece`: a number from which on the model's other
  /// parameters and pieces have none.
  BucketRound(const RoundSetting& setting, const Bucket& bucket, bool votes, std::uint32_t first_piece);

  /// Finds out which tensors go dense in `step`.
  void begin(const Step& step);

  /// This rank's shares of the tensors that are averaged as they are, because the compressor does not take them or lets
  /// them go dense in this step (Compressor::goes_dense), and its vote.
  collectives::Buffer dense();
  Result<void> gather_dense();
  Result<void> conclude_dense();
  /// The sum of the ranks' votes, after conclude_dense().
  float votes() const { return votes_sum_; }
  /// The tensors of dense(), one after the other.
  std::span<const std::uint32_t> dense_parameters() const { return dense_parameters_; }

  /// The passes of the tensors that are encoded; none if there are no such tensors.
  std::span<const compressors::Reduction> passes() const { return passes_; }
  Result<void> encode(std::uint32_t pass);
  /// What is gathered in a pass.
  BytesView payload() const { return payload_; }
  /// The tensors of payload(), and where the part of each ends.
  std::span<const std::uint32_t> coded_parameters() const { return coded_parameters_; }
  std::span<const std::size_t> payload_ends() const { return ends_; }
  collectives::Gathered& gathered() { return gathered_; }
  /// What goes to each owner, in an exchange by owners; what this rank is sent if it is one; what it makes of that.
  bool by_owners() const { return setting_.owners > 0; }
  std::span<const BytesView> outgoing();
  collectives::Gathered& incoming() { return incoming_; }
  Result<void> combine();
  BytesView combined() const { return combined_; }

  /// What is reduced in a pass, and how.
  collectives::Buffer sums(std::uint32_t pass);
  collectives::ReduceOp operation(std::uint32_t pass) const;
  Result<void> decode(std::uint32_t pass);

  std::size_t piece_count() const { return pieces_.size(); }

  /// The residuals of this rank as an owner.
  void save(std::vector<NamedTensor>& state) const;
  Result<void> restore(std::span<const NamedTensor> state);

 private:
  /// A piece of a tensor that is encoded in this step.
  struct CodedPiece {
    std::size_t piece = 0;  ///< index in pieces_
    std::size_t coded = 0;  ///< index in coded_parameters_
    std::size_t begin = 0;  ///< of its payload in payload_
    std::size_t end = 0;
    std::size_t entries_begin = 0;  ///< among own_entries_[coded]
    std::size_t entries_end = 0;
  };

  compressors::Round round_of(std::uint32_t parameter, std::uint32_t pass) const;
  compressors::Round round_of(const Piece& piece, std::uint32_t pass) const;
  compressors::Round round_back(const Piece& piece) const;
  Result<void> encode(CodedPiece& coded, std::uint32_t pass, bool sparse);
  Result<void> combine(const CodedPiece& coded);
  Result<void> expect_all_taken() const;
  Result<void> decode_from_owners();
  Result<void> take_from_owner(const CodedPiece& coded);
  Result<void> conclude(std::size_t coded, const compressors::Sent& sent);
  compressors::Sent sent_by_pieces(std::span<const CodedPiece> pieces);
  at::Tensor gradient_of(std::uint32_t parameter) const;
  Error of_parameter(const Error& error, std::uint32_t parameter) const;
  Error of_piece(const Error& error, const Piece& piece) const;
  Result<void> decode_sums(std::uint32_t pass);
  Result<void> decode_gathered(std::uint32_t pass);
  Result<void> take(std::size_t coded, std::span<const BytesView> results, std::uint32_t pass);
  Result<void> average(std::size_t coded, std::span<const BytesView> results, compressors::Round round);
  BytesView own_payload(const CodedPiece& coded) const;

  const RoundSetting& setting_;
  const Bucket& bucket_;
  const bool with_votes_;
  const std::vector<Piece> pieces_;
  const std::uint32_t first_piece_;
  std::optional<Owner> owner_;  ///< in an exchange by owners

  Step step_;
  std::vector<std::uint32_t> dense_parameters_;
  std::vector<std::uint32_t> coded_parameters_;
  std::vector<CodedPiece> coded_pieces_;
  compressors::Passes passes_;
  at::Tensor
      dense_;  ///< the dense tensors one after the other, then the vote; the means of a bucket that is never coded
  float votes_sum_ = 0;
  std::vector<at::Tensor> compensated_;              ///< by index in coded_parameters_
  Bytes payload_;                                    ///< of all of them
  std::vector<std::size_t> ends_;                    ///< by index: where each tensor's payload ends in payload_
  Bytes own_sums_;                                   ///< payload_ from before the sum overwrote it
  std::vector<compressors::Selection> own_entries_;  ///< by index: what a sparse compressor sent in the last pass
  compressors::Selection entries_;                   ///< of another rank or of one piece
  collectives::Gathered gathered_;
  std::vector<BytesView> streams_;   ///< by rank: what is left of a gathered payload
  std::vector<BytesView> results_;   ///< by rank: of one tensor
  std::vector<BytesView> outgoing_;  ///< by owner
  collectives::Gathered incoming_;
  Bytes combined_;
  std::vector<compressors::SentRows> sent_rows_;  ///< of one tensor
};

}  // namespace weir::actors
