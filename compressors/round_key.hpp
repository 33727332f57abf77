#pragma once

#include "compressors/compressor.hpp"
#include "compressors/kernels/random.hpp"

namespace weir::compressors {

/// The random numbers of one rank in a round of a tensor, independent of those of the other ranks.
inline RandomKey key_of_rank(const Round& round) {
  return {round.seed, round.step, round.tensor, static_cast<std::uint16_t>(round.rank)};
}

/// Random numbers that all ranks draw alike and that are independent of those of every rank: for compressors that draw
/// both.
inline RandomKey key_beside_ranks(const Round& round) { return {round.seed, round.step, round.tensor, 0xFFFF}; }

/// Those that all ranks draw alike. They are the numbers of rank 0: for compressors that draw nothing of their own.
inline RandomKey key_of_all(const Round& round) { return {round.seed, round.step, round.tensor, 0}; }

}  // namespace weir::compressors
