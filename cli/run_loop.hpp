#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

namespace weir::cli {

/// Runs the loop on `threads` threads, this one among them, until `work`, on a strand of it, gives the exit code. What
/// it throws comes out here; whatever else waits in the loop then stays there.
int run_loop(boost::asio::io_context& io, boost::asio::awaitable<int> work, int threads = 1);

}  // namespace weir::cli
