#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/descriptor.hpp"

namespace weir::collectives {

/// A communicator over connected stream sockets whose other ends are authenticated: `sockets[r]` leads to rank r; the
/// entry of `rank` itself is empty.
std::unique_ptr<Communicator> tcp_communicator(std::uint32_t rank, std::uint64_t attempt,
                                               std::vector<Descriptor> sockets);

}  // namespace weir::collectives
