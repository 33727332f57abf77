#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "compressors/catalog.hpp"
#include "training/exchange/mean.hpp"
#include "training/exchange/shares.hpp"

namespace weir::training {

/// A rank's work for pieces that it encodes again: it keeps the mean of what ranks have encoded of them, of all ranks
/// or so far on its way, and encodes it. What that leaves out it adds to the next mean (DoubleSqueeze, Tang et al.
/// 2019), if the compressor is one for which such a residual stays bounded.
class Owner {
 public:
  /// `pieces`: of the bucket, and must outlive this object; those that rank `rank` owns count, or all if there is none.
  Owner(const compressors::Compression& compression, std::span<const compressors::NamedTensor> parameters,
        std::span<const Piece> pieces, std::optional<std::uint32_t> rank);

  /// Before anything is added to the mean of a piece in a round: what was left out of the last one is in this round's
  /// unit then, if the memory has one that follows the learning rate.
  void begin(std::size_t piece, const compressors::Round& round);

  /// The mean of a piece, to which the caller adds what ranks have encoded of it. Not sparse.
  Mean& mean(std::size_t piece) { return works_[piece].mean; }

  /// Appends the encoded mean of a piece to `out`. Of a compressor with several passes all are gone through, by this
  /// rank alone.
  Result<void> encode(std::size_t piece, const compressors::Round& round, Bytes& out);
  /// What the last encode() of a piece has sent; of a sparse compressor.
  const compressors::Selection& entries(std::size_t piece) const { return *works_[piece].entries; }

  /// All ranks have what the last encode() of a piece has appended: its payload, of that round. Fails with what
  /// Compressor::decode_add() fails with.
  Result<void> take(std::size_t piece, BytesView payload, const compressors::Round& round);

  /// Before rounds without owners: leaves the residual of a piece to what this rank has not sent itself, once for each
  /// of the round's ranks, because it is of their mean. A memory that has nothing of the kind leaves it to the owner.
  void hand_over(std::size_t piece, compressors::Memory& memory, const compressors::Round& round);

  /// The residuals, for a checkpoint: some tensors with the name of the parameter for each that pieces are of, which
  /// follow one another in it. They alias the live ones or are made for this.
  void save(std::vector<compressors::NamedTensor>& state) const;
  /// Takes those of this bucket. Fails with: malformed (some are missing or of another piece).
  Result<void> restore(std::span<const compressors::NamedTensor> state);

  /// What has been left out of the means of a parameter's pieces.
  struct Residual {
    std::uint64_t first_entry = 0;  ///< of the first piece, in the parameter
    at::Tensor values;              ///< contiguous
  };
  /// The residual in a state from save() of a parameter with so many entries, if there is one. Fails with: malformed.
  static Result<std::optional<Residual>> residual_in(std::span<const compressors::NamedTensor> state,
                                                     const std::string& parameter, std::int64_t entries);

 private:
  /// Of one piece.
  struct Work {
    const Piece* piece = nullptr;  ///< null: it does not count
    Mean mean;                     ///< between rounds the residual
    std::optional<compressors::Selection> entries;
    bool owes = false;        ///< the residual may be other than zero
    float learning_rate = 0;  ///< of the last round, where the residual follows it
  };
  /// The pieces of one parameter that count, which follow one another.
  struct OfParameter {
    const std::string* name = nullptr;
    std::size_t first = 0;  ///< index in works_
    std::size_t count = 0;
  };
  std::span<const Work> pieces_of(const OfParameter& of) const { return std::span(works_).subspan(of.first, of.count); }

  compressors::Compressor& compressor_;
  const bool keeps_residual_;
  const bool follows_learning_rate_;
  const bool counts_signs_;  ///< the mean is one of votes, each of the same size
  std::vector<Work> works_;  ///< by piece
  std::vector<OfParameter> parameters_;
  Bytes alone_;  ///< what is encoded in the passes before the last
};

}  // namespace weir::training
