#pragma once

#include "bench/bench.hpp"

namespace weir::bench {

/// Encodes and decodes 4096 x 4096 floats with every compressor of the catalog, alone and with its memory, on one
/// thread, beside memcpy of the same bytes and LibTorch's own topk. Prints to stdout. Gives the exit code: 0, or 2 for
/// a filter that is no regular expression.
int compressors(const Options& options);

}  // namespace weir::bench
