#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include "base/result.hpp"

namespace weir::compressors::device {

// Compressors and memories for tensors that lie on a device. Everything here is put into the calling thread's current
// stream, which has to be a coding_stream(), and is done in the order of that stream; what returns numbers waits for
// it. In builds without CUDA there is no such device (without_cuda.cpp).
//
// Functions fail with: internal (what CUDA answers), unsupported (a build without CUDA). Where LibTorch takes memory,
// its exceptions go through.

/// The devices whose memory the kernels work on; the processor if there are none.
at::DeviceType type_of_kernels();

/// Whether the kernels run on the first GPU, which is asked once. Fails with: unsupported (a build without CUDA, or a
/// GPU or a driver that is too old for them; the context is a sentence), internal.
Result<void> check_kernels();

/// Whether tensors there can be coded where they are: where the kernels run. Of several GPUs on the first one, which a
/// worker trains on.
bool has_kernels(at::Device device);

/// A stream for such a device, in which LibTorch's operations and the kernels have one order. There are some, which
/// live as long as the process and are given out in turns.
c10::Stream coding_stream(at::Device device);

}  // namespace weir::compressors::device
