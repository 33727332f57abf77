#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>

namespace weir::runtime {

/// How long a loop with nothing to do looks for more before it goes to sleep. Being woken costs a loopback round trip
/// several times what the messages do; an answer that comes within this time finds the loop awake.
inline constexpr std::chrono::microseconds attention{25};

/// io.run() for a process that talks to others: the calling thread handles what there is, stays awake for a moment
/// after it, then sleeps. Returns when the loop is stopped or has no work left. For loops that one thread runs.
void run(boost::asio::io_context& io);

}  // namespace weir::runtime
