#pragma once

#include "bench/bench.hpp"

namespace weir::bench {

/// `weir bench exchange`: the collectives over TCP on loopback, 2 and 4 ranks in threads of this process. Beside each
/// row it measures its limit: the same bytes pushed around the same ring of bare sockets, without headers, checksums or
/// additions. `line_rate_share` is the limit's time over ours. Gives an exit code.
int exchange(const Options& options);

}  // namespace weir::bench
