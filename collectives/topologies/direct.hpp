#pragma once

#include <cstdint>

#include "base/bytes.hpp"
#include "base/function_ref.hpp"
#include "collectives/collective.hpp"

namespace weir::collectives {

// An all-reduce in two steps of messages straight to where they belong. The values are cut into one chunk for each of
// the first `owners` ranks.

/// Each owner combines its chunk over all ranks, its own first and then those of the ranks before it, the nearest
/// first.
Task<> reduce_to_owners(Communicator& group, Buffer values, std::uint32_t owners, ReduceOp op, Subject about);

/// Each owner copies its chunk to all.
Task<> copy_from_owners(Communicator& group, Buffer values, std::uint32_t owners, Subject about);

/// Both, one after the other.
Task<> combine_by_owners(Communicator& group, Buffer values, std::uint32_t owners, ReduceOp op, Subject about);

/// Sends message(to) to each of the first `receivers` ranks but this one, beginning with the one after it. The function
/// must outlive the task.
Task<> send_to_each(Communicator& group, std::uint32_t receivers, FunctionRef<ConstBuffer(std::uint32_t)> message,
                    Subject about);

/// The rank that follows `rank` at a distance, and the one that many places before it.
inline std::uint32_t after(const Communicator& group, std::uint32_t distance) {
  return (group.rank() + distance) % group.size();
}
inline std::uint32_t before(const Communicator& group, std::uint32_t distance) {
  return (group.rank() + group.size() - distance) % group.size();
}

}  // namespace weir::collectives
