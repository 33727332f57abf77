#pragma once

#include "bench/bench.hpp"

namespace weir::bench {

/// `weir bench compressors`: encodes and decodes 4096 x 4096 floats with every compressor of the catalog, alone and
/// with its memory, on one thread (encoding on two threads, too). Also measures memcpy of the same bytes and LibTorch's
/// own topk. Prints to stdout. Returns the exit code.
int compressors(const Options& options);

}  // namespace weir::bench
