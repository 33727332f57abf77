#pragma once

#include "compressors/compressor.hpp"
#include "compressors/kernels/random/random.hpp"

namespace weir::compressors {

/// Key of a rank's own random numbers for a tensor and step, independent of those of the other ranks.
inline RandomKey key_of_rank(const Round& round) {
  return {round.seed, round.step, round.tensor, static_cast<std::uint16_t>(round.rank)};
}

/// Key of random numbers that all ranks draw alike and that are independent of those of every rank. For compressors
/// that draw both shared numbers and numbers of their own.
inline RandomKey key_beside_ranks(const Round& round) { return {round.seed, round.step, round.tensor, 0xFFFF}; }

/// Key of the random numbers that all ranks draw alike. It equals key_of_rank() of rank 0, so a compressor must not use
/// both for the same tensor: one that draws both uses key_beside_ranks().
inline RandomKey key_of_all(const Round& round) { return {round.seed, round.step, round.tensor, 0}; }

}  // namespace weir::compressors
