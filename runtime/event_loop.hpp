#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>

namespace weir::runtime {

/// How long an idle loop polls for work before it sleeps. Waking up costs several times what the messages of a loopback
/// round trip do; an answer that arrives within this time finds the loop awake.
inline constexpr std::chrono::microseconds attention{25};

/// Replaces io.run() in processes that exchange messages: the calling thread handles all ready work, polls for
/// `attention` longer, then sleeps. Returns when the loop is stopped or has no work left. For loops run by one thread.
void run(boost::asio::io_context& io);

}  // namespace weir::runtime
