#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/result.hpp"
#include "cuda/check.cuh"
#include "cuda/stream.hpp"

namespace weir::cuda {

/// How a kernel is spread: `blocks` of `threads`, each block with `shared_bytes` of memory (shared_memory()).
struct Shape {
  unsigned blocks = 1;
  unsigned threads = 1;
  std::size_t shared_bytes = 0;
};

/// Of the calling thread's current device, which is asked once: a launch for several tensors wants to know for each.
inline int multiprocessors() {
  thread_local int known_of = -1;
  thread_local int known = 1;
  int device = 0;
  int found = 0;
  // If these fail, so does the launch, which tells.
  if (cudaGetDevice(&device) != cudaSuccess) return 1;
  if (device == known_of) return known;
  if (cudaDeviceGetAttribute(&found, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) return 1;
  known_of = device;
  return known = found;
}

/// The blocks for a kernel whose blocks each take one of `pieces` of work after the other: no more than keep the
/// device busy. Where a multiprocessor has registers for fewer than eight, they are not to be more than that: those
/// that begin late would end late.
inline unsigned blocks_for(std::uint64_t pieces, unsigned of_a_multiprocessor = 8) {
  const auto most = of_a_multiprocessor * static_cast<std::uint64_t>(multiprocessors());
  return static_cast<unsigned>(std::clamp<std::uint64_t>(pieces, 1, most));
}

inline constexpr unsigned shape_threads = 256;

/// The shape for a kernel whose threads take `entries_of_thread` entries at a time, of n.
inline Shape shape_for(std::uint64_t n, unsigned entries_of_thread, unsigned of_a_multiprocessor = 8) {
  const std::uint64_t entries_of_block = std::uint64_t{entries_of_thread} * shape_threads;
  return {.blocks = blocks_for((n + entries_of_block - 1) / entries_of_block, of_a_multiprocessor),
          .threads = shape_threads};
}

/// Puts a kernel into the stream. The arguments are converted to the kernel's parameters as in a call. Does not wait:
/// an error of the kernel itself is reported by what is asked of the stream later. Fails with: internal.
template <class... Parameters, class... Arguments>
Result<void> launch(const char* name, void (*kernel)(Parameters...), const Shape& shape, StreamHandle stream,
                    Arguments&&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(shape.blocks);
  config.blockDim = dim3(shape.threads);
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  const cudaError_t answer = cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...);
  // Also forgets it: the next launch is not to be blamed.
  const cudaError_t last = cudaGetLastError();
  if (answer == cudaSuccess && last == cudaSuccess) return {};
  return check(answer != cudaSuccess ? answer : last, std::string("starting kernel ") + name);
}

}  // namespace weir::cuda
