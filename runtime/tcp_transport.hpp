#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "runtime/transport.hpp"

namespace weir::runtime {

struct TcpOptions {
  FrameLimits limits;
  /// Bytes that may wait to be written to one link; with more waiting, send() fails with Errc::exhausted.
  std::size_t queued_bytes_max = 256u << 20;
  /// How long connect() waits for one address of the other side. Without it, a host whose packets are lost holds a
  /// connect for two minutes. The search for the addresses of a name has the limits of the system's resolver.
  std::chrono::milliseconds connect_limit{5000};
};

/// Frames over TCP, without delay (TCP_NODELAY). Links run on strands of the executor given here.
std::unique_ptr<Transport> make_tcp_transport(net::any_io_executor executor, TcpOptions options = {});

}  // namespace weir::runtime
