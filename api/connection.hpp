#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

namespace weir::api {

namespace net = boost::asio;

struct Services;

/// Serves one client until it leaves, is too slow, or does not speak HTTP/1.x. Runs on the socket's executor, a strand;
/// `services` outlives it. If `only_health`, the server is full: anything but a health route is answered 503.
/// Only terminal cancellation ends it: in Boost 1.81 the operations of an `a || b` ignore the total kind, and the group
/// that they form then ignores whatever else comes, its own end included.
net::awaitable<void> serve(net::ip::tcp::socket socket, Services& services, bool only_health);

}  // namespace weir::api
