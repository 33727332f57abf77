#include "cuda/kernels/random.cuh"

#include "cuda/kernels/device.cuh"
#include "cuda/launch.cuh"

namespace weir::cuda {
namespace {

/// A thread writes the words of one counter, every eighth of a group.
__global__ void fill_random_kernel(RandomKey key, std::uint64_t begin, std::uint32_t* __restrict__ out,
                                   std::uint64_t n) {
  const std::uint64_t counters = (n + random_group - 1) / random_group * random_lanes;
  for (std::uint64_t i = thread_of_grid(); i < counters; i += threads_of_grid()) {
    const Philox::Block words = random_block(key, begin / random_group * random_lanes + i);
    const std::uint64_t first = i / random_lanes * random_group + i % random_lanes;
    for (unsigned k = 0; k < 8; ++k) {
      if (first + 8 * k < n) out[first + 8 * k] = word_of(words, k);
    }
  }
}

}  // namespace

Result<void> fill_random(const RandomKey& key, std::uint64_t begin, std::uint32_t* out, std::uint64_t n,
                         StreamHandle stream) {
  if (n == 0) return {};
  return launch("fill_random", fill_random_kernel, shape_for(n, 8), stream, key, begin, out, n);
}

}  // namespace weir::cuda
