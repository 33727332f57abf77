#pragma once

#include "bench/bench.hpp"

namespace weir::bench {

/// `weir bench exchange`: the collectives of each topology, by themselves, and the step of a job over each topology
/// that it can name, with the production exchange: dense gradients, and coded ones (topk with its defaults); `auto` has
/// tried its plans before. Over TCP on loopback and through shared memory, with 2 and 4 ranks in threads of this
/// process. For each row it also measures the limit, without headers, checksums or additions: as many bytes as the
/// busiest rank sends, sent around a ring over bare sockets; for shared memory, copied into a buffer and out again by
/// each rank. `line_rate_share` is the limit's time divided by ours. Returns an exit code.
int exchange(const Options& options);

}  // namespace weir::bench
