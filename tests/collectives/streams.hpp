#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <utility>

#include "collectives/transports/shared_memory.hpp"
#include "collectives/transports/socket_stream.hpp"

namespace weir::collectives::testing {

inline std::array<Descriptor, 2> sockets() {
  int pair[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
  return {Descriptor(pair[0]), Descriptor(pair[1])};
}

/// Both ends of a connection.
using Connection = std::array<std::unique_ptr<Stream>, 2>;

inline Connection over_sockets() {
  auto [one, other] = sockets();
  return {std::make_unique<SocketStream>(std::move(one)), std::make_unique<SocketStream>(std::move(other))};
}
inline Connection over_shared_memory() {
  auto [one, other] = sockets();
  SharedMemory memory = SharedMemory::create(65'536).value();
  SharedMemory seen = SharedMemory::open(Descriptor(::dup(memory.descriptor()))).value();
  using Side = SharedMemoryStream::Side;
  return {std::make_unique<SharedMemoryStream>(std::move(one), std::move(memory), Side::creator),
          std::make_unique<SharedMemoryStream>(std::move(other), std::move(seen), Side::other)};
}

}  // namespace weir::collectives::testing
