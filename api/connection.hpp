#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

namespace weir::api {

namespace net = boost::asio;

struct Services;

/// Enters a connection into the server's table and serves it until the client leaves, is too slow, or does not speak
/// HTTP/1.x, or until the table drops it. The coroutine must run on the socket's executor, a strand; `services` must
/// outlive it. End it through the table, not by cancellation.
net::awaitable<void> serve(net::ip::tcp::socket socket, Services& services);

}  // namespace weir::api
