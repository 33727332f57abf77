#pragma once

#include "bench/bench.hpp"

namespace weir::bench {

/// `weir bench gathering`: decodes the payloads of 4, 16 and 64 ranks for 4096 x 2048 floats into their mean, with
/// every compressor whose payloads are gathered: one payload after the other, and all together, on one thread and all.
/// Beside it the limit: copying as many bytes as the payloads have, and as are read and written of the mean, on all
/// threads. Prints to stdout. Returns the exit code.
int gathering(const Options& options);

}  // namespace weir::bench
