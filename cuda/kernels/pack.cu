#include "cuda/kernels/pack.hpp"

#include "cuda/kernels/device.cuh"
#include "cuda/kernels/pack.cuh"
#include "cuda/launch.cuh"

namespace weir::cuda {
namespace {

// A thread takes sixteen codes, two words. What they are packed into has `bits` bytes each.

constexpr unsigned codes_of_thread = 16;

struct Two {
  std::uint64_t first;
  std::uint64_t second;
};

/// `count` bytes, up to sixteen.
__device__ Two load_two(const std::byte* from, unsigned count) {
  if (count == 16 && is_aligned<ulonglong2>(from)) {
    const ulonglong2 both = *reinterpret_cast<const ulonglong2*>(from);
    return {both.x, both.y};
  }
  const unsigned of_first = at_most(count, 8);
  return {load_word<std::uint64_t>(from, of_first), load_word<std::uint64_t>(from + of_first, count - of_first)};
}

/// Two words of `bytes` bytes each, of which there are `count` bytes.
__device__ void store_two(const Two& two, std::byte* to, unsigned bytes, unsigned count) {
  if (bytes <= 4) return store_word(two.first | two.second << 8 * bytes, to, count);
  const unsigned of_first = at_most(count, bytes);
  store_word(two.first, to, of_first);
  store_word(two.second, to + of_first, count - of_first);
}

__global__ void pack_kernel(const std::byte* __restrict__ codes, std::uint64_t n, unsigned bits,
                            std::byte* __restrict__ out) {
  const std::uint64_t used = ((1U << bits) - 1) * 0x0101010101010101U;
  for (std::uint64_t at = codes_of_thread * thread_of_grid(); at < n; at += codes_of_thread * threads_of_grid()) {
    const unsigned count = at_most(n - at, codes_of_thread);
    const Two two = load_two(codes + at, count);
    const Two packed = {squeeze(two.first & used, bits), squeeze(two.second & used, bits)};
    store_two(packed, out + at / 8 * bits, bits, static_cast<unsigned>(packed_bytes(count, bits)));
  }
}

}  // namespace

Result<void> pack(const std::byte* codes, std::uint64_t n, unsigned bits, std::byte* out, StreamHandle stream) {
  if (n == 0) return {};
  return launch("pack", pack_kernel, shape_for(n, codes_of_thread), stream, codes, n, bits, out);
}

}  // namespace weir::cuda
