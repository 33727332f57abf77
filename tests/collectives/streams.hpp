#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
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

/// Both ends of a TCP connection. On its way to the second one there is room for more than 100 KB, nearly all of it in
/// what the first one has sent and that has not arrived.
inline std::array<Descriptor, 2> tcp_sockets() {
  const auto set = [](const Descriptor& socket, int name, int value) {
    EXPECT_EQ(::setsockopt(*socket, SOL_SOCKET, name, &value, sizeof value), 0);
  };
  Descriptor port(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  EXPECT_EQ(::bind(*port, reinterpret_cast<const sockaddr*>(&at), size), 0);
  EXPECT_EQ(::listen(*port, 1), 0);
  EXPECT_EQ(::getsockname(*port, reinterpret_cast<sockaddr*>(&at), &size), 0);
  Descriptor other(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  set(other, SO_RCVBUF, 4096);  // before it connects, or it would be too late
  EXPECT_EQ(::connect(*other, reinterpret_cast<const sockaddr*>(&at), size), 0);
  EXPECT_EQ(::fcntl(*other, F_SETFL, O_NONBLOCK), 0);
  Descriptor one(::accept4(*port, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  set(one, SO_SNDBUF, 200'000);
  return {std::move(one), std::move(other)};
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
