#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "compressors/compressor.hpp"
#include "training/exchange/buckets.hpp"

namespace weir::training {

/// Rows of a parameter (of its first dimension) that are encoded on their own, or all of it.
struct Piece {
  std::uint32_t parameter = 0;
  std::uint32_t owner = 0;  ///< the rank that averages them, in an exchange by owners
  std::int64_t first_row = 0;
  std::int64_t rows = 0;  ///< 0: all of the parameter, which may have no dimensions
  std::uint64_t first_entry = 0;
  std::uint64_t entries = 0;

  /// The piece of a contiguous tensor of the parameter's shape, whose memory it shares. `view` is what an earlier call
  /// returned, if there was one: used again, nothing is taken from the heap.
  at::Tensor of(const at::Tensor& whole, at::Tensor& view) const;
};

/// Has a view that Piece::of() has returned keep no memory any more. It may be used again.
void show_nothing(at::Tensor& view);

/// One piece for each parameter of the bucket.
std::vector<Piece> whole_parameters(std::span<const compressors::NamedTensor> parameters, const Bucket& bucket);

/// Cuts the parameters of the bucket, one after the other, into one share for each owner: consecutive rows with about
/// as many entries as those of every other owner. An owner has one piece of a parameter or none.
std::vector<Piece> shares_of_owners(std::span<const compressors::NamedTensor> parameters, const Bucket& bucket,
                                    std::uint32_t owners);

}  // namespace weir::training
