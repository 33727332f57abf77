#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/communicator.hpp"

namespace weir::collectives {

/// The communicators of a whole group within this process, in rank order, each for a thread of its own: for
/// tests and simulation. Counts the traffic that TCP would have had.
std::vector<std::unique_ptr<Communicator>> in_process_group(std::uint32_t size);

}  // namespace weir::collectives
