#pragma once

namespace weir::worker {

/// Prints LibTorch's version and on what it computes here, in one line. Returns 0 if that is more than the processor,
/// else 1.
int print_devices();

}  // namespace weir::worker
