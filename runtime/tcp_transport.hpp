#pragma once

#include <cstddef>
#include <memory>

#include "runtime/transport.hpp"

namespace weir::runtime {

struct TcpOptions {
  FrameLimits limits;
  /// Bytes that may wait to be written to one link; with more waiting, send() fails with Errc::exhausted.
  std::size_t queued_bytes_max = 256u << 20;
};

/// Frames over TCP, without delay (TCP_NODELAY). Links run on strands of the executor given here.
std::unique_ptr<Transport> make_tcp_transport(net::any_io_executor executor, TcpOptions options = {});

}  // namespace weir::runtime
