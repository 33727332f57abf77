#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "actors/exchange/shares.hpp"
#include "base/bytes.hpp"
#include "base/result.hpp"
#include "compressors/catalog.hpp"

namespace weir::actors {

/// A rank's work for the pieces that it owns: it averages what all ranks have encoded of them and encodes the mean for
/// the way back. What that leaves out it adds to the next mean (DoubleSqueeze, Tang et al. 2019), if the compressor is
/// one for which such a residual stays bounded.
class Owner {
 public:
  /// `pieces`: of the bucket; those of `rank` count.
  Owner(compressors::Compressor& compressor, std::span<const compressors::NamedTensor> parameters,
        std::span<const Piece> pieces, std::uint32_t rank);

  /// Adds `share` times what a rank has encoded of a piece to its mean. `round`: the one in which it did. Fails with:
  /// malformed, unsupported.
  Result<void> add(std::size_t piece, BytesView payload, const compressors::Round& round, float share);
  /// The same, of entries that this rank has encoded itself; `positions` are those in the whole parameter.
  void add(std::size_t piece, std::span<const std::uint32_t> positions, std::span<const float> values, float share);

  /// Appends the encoded mean of a piece to `out`.
  Result<void> encode(std::size_t piece, const compressors::Round& round, Bytes& out);
  /// What the last encode() of a piece has sent; of a sparse compressor.
  const compressors::Selection& entries(std::size_t piece) const { return *works_[piece].entries; }

  /// `decoded`: what the encoded mean has become on all ranks.
  void take(std::size_t piece, const at::Tensor& decoded);

  /// The residuals by name of the parameter, for a checkpoint. The tensors alias the live ones.
  void save(std::vector<compressors::NamedTensor>& state) const;
  /// Takes those of this bucket. Fails with: malformed.
  Result<void> restore(std::span<const compressors::NamedTensor> state);

 private:
  /// Of one piece.
  struct Work {
    const Piece* piece = nullptr;  ///< null: another rank's
    const std::string* name = nullptr;
    at::Tensor mean;  ///< between rounds the residual
    std::optional<compressors::Selection> entries;
  };

  compressors::Compressor& compressor_;
  const bool keeps_residual_;
  std::vector<Work> works_;  ///< by piece
};

}  // namespace weir::actors
