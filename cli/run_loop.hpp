#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

namespace weir::cli {

/// Runs the loop on `threads` threads, including this one, until `work`, which runs on a strand of it, returns the exit
/// code. Its exceptions are rethrown here; other work in the loop is then left unfinished.
int run_loop(boost::asio::io_context& io, boost::asio::awaitable<int> work, int threads = 1);

}  // namespace weir::cli
