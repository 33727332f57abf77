#pragma once

#include "collectives/collective.hpp"

namespace weir::collectives {

/// A block of `size` consecutive ranks, a power of two, that halve and double values among themselves. The values are
/// cut into `chunks` chunks, a multiple of `size`; the rank at place i of the block is responsible for share i.
struct Halving {
  Buffer values;
  std::uint32_t chunks = 1;
  std::uint32_t first = 0;  ///< rank of the group
  std::uint32_t size = 1;

  /// `count` shares, beginning with the one of `place`.
  Buffer share(std::uint32_t place, std::uint32_t count) const;
};

/// Combines the values of the block's ranks by recursive halving: each rank ends with the result of its share. The
/// messages are parts about.part and following, log2(size) of them.
Task<> reduce_by_halving(Communicator& group, Halving block, ReduceOp op, Subject about);

/// Distributes the shares of all ranks of the block to all of them, by recursive doubling. Parts as above.
Task<> gather_by_doubling(Communicator& group, Halving block, Subject about);

/// Both, over all ranks of the group, whose number is a power of two: an all-reduce.
Task<> combine_by_halving(Communicator& group, Buffer values, ReduceOp op, Subject about);

}  // namespace weir::collectives
