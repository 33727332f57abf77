#pragma once

#include "bench/bench.hpp"

namespace weir::bench {

/// `weir bench actors`: calls with 64 bytes in each direction between two processes on loopback, with the rows of Ray's
/// microbenchmark. The limit, a round trip of the same bytes over a bare blocking TCP socket, is measured in turns with
/// each row. Forks, so it must be called while the process has only one thread. Returns an exit code.
int actors(const Options& options);

}  // namespace weir::bench
