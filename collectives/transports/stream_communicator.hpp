#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/fabric.hpp"
#include "collectives/transports/epoll_loop.hpp"
#include "collectives/transports/stream.hpp"

namespace weir::collectives {

/// A rank's place in a group.
struct Member {
  std::uint32_t rank = 0;
  std::uint64_t attempt = 0;  ///< frames of another one are refused
  Loss loss = Loss::ends_the_group;
  std::vector<std::uint32_t> hosts = {};  ///< by rank (Communicator::host_of); empty: each has its own
  /// How long close() waits for ranks that neither read nor say that they wait. After a failure, how long they have to
  /// read why.
  std::chrono::milliseconds linger{5000};
};

/// A rank's end of one lane over connections to the others, one for each rank in rank order and none for its own.
/// `loop` must outlive it.
std::unique_ptr<Communicator> stream_communicator(EpollLoop& loop, const Member& member, std::uint32_t lane,
                                                  std::vector<std::unique_ptr<Stream>> streams);

/// A rank's end of a group over connections for each lane, with a loop and a thread of its own.
std::unique_ptr<Fabric> stream_fabric(const Member& member, std::vector<std::vector<std::unique_ptr<Stream>>> lanes);

}  // namespace weir::collectives
