#pragma once

#include "bench/bench.hpp"

namespace weir::bench {

/// `weir bench exchange`: the collectives over TCP on loopback, with 2 and 4 ranks in threads of this process. For each
/// row it also measures the limit: the same bytes sent around the same ring over bare sockets, without headers,
/// checksums or additions. `line_rate_share` is the limit's time divided by ours. Returns an exit code.
int exchange(const Options& options);

}  // namespace weir::bench
