#pragma once

#include "bench/bench.hpp"

namespace weir::bench {

/// A head with 150 node agents, in a process of their own and over TCP, and 200 jobs in its queue that nobody can
/// place: what one more submit takes, a dry run of 512 workers with a GPU, and a page of the list with its reasons;
/// beside a bare write that reaches the disk, which a submit cannot do without.
int schedule(const Options& options);

}  // namespace weir::bench
