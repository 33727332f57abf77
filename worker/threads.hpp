#pragma once

#include <thread>

namespace weir::worker {

/// Sets how many threads tensor operations may use, in LibTorch and in the BLAS below it.
void set_threads(int count);

/// Starts a thread on which LibTorch sets up what it otherwise sets up in the first training step: the kernels'
/// dispatch, the autograd engine, the BLAS. Draws no random numbers.
std::jthread warm_up();

}  // namespace weir::worker
