#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "actors/exchange/buckets.hpp"
#include "compressors/compressor.hpp"

namespace weir::actors {

/// Rows of a parameter (of its first dimension) that are encoded on their own, or all of it.
struct Piece {
  std::uint32_t parameter = 0;
  std::uint32_t owner = 0;  ///< the rank that averages them, in an exchange by owners
  std::int64_t first_row = 0;
  std::int64_t rows = 0;  ///< 0: all of the parameter, which may have no dimensions
  std::uint64_t first_entry = 0;
  std::uint64_t entries = 0;

  /// The piece of a tensor of the parameter's shape.
  at::Tensor of(const at::Tensor& whole) const { return rows == 0 ? whole : whole.narrow(0, first_row, rows); }
};

/// One piece for each parameter of the bucket.
std::vector<Piece> whole_parameters(std::span<const compressors::NamedTensor> parameters, const Bucket& bucket);

/// Cuts the parameters of the bucket, one after the other, into one share for each owner: consecutive rows with about
/// as many entries as those of every other owner. An owner has one piece of a parameter or none.
std::vector<Piece> shares_of_owners(std::span<const compressors::NamedTensor> parameters, const Bucket& bucket,
                                    std::uint32_t owners);

}  // namespace weir::actors
