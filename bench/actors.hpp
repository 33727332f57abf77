#pragma once

#include "bench/bench.hpp"

namespace weir::bench {

/// `weir bench actors`: calls of 64 bytes there and 64 bytes back between two processes on loopback, with the rows of
/// Ray's microbenchmark. The limit, a round trip of the same bytes over a bare blocking TCP socket, is measured right
/// before each row. Forks, so it must be called while the process has one thread. Gives an exit code.
int actors(const Options& options);

}  // namespace weir::bench
