#pragma once

#include "bench/bench.hpp"

namespace weir::bench {

/// `weir bench schedule`: a head with 150 node agents, in a process of their own and connected by TCP, and a queue of
/// 200 jobs that cannot be placed. Measures one more submit, a dry run of 512 workers with a GPU each, and a page of
/// the job list with its reasons; also a bare write to the disk, which a submit needs at least. Without a head, it
/// measures one pass over 10,000 equal jobs that do not fit a cluster of 1,000 nodes, which has grown. Returns an exit
/// code: 0, 1 if something failed, 128 and its number after a signal to end.
int schedule(const Options& options);

}  // namespace weir::bench
