#include "cuda/kernels/pack.hpp"

#include "cuda/kernels/device.cuh"
#include "cuda/kernels/pack.cuh"
#include "cuda/launch.cuh"

namespace weir::cuda {
namespace {

// A thread takes eight codes.

__global__ void pack_kernel(const std::byte* __restrict__ codes, std::uint64_t n, unsigned bits,
                            std::byte* __restrict__ out) {
  const std::uint64_t used = ((1U << bits) - 1) * 0x0101010101010101U;
  for (std::uint64_t at = 8 * thread_of_grid(); at < n; at += 8 * threads_of_grid()) {
    const unsigned count = at_most(n - at, 8);
    const std::uint64_t packed = squeeze(load_word<std::uint64_t>(codes + at, count) & used, bits);
    store_word(packed, out + at / 8 * bits, static_cast<unsigned>(packed_bytes(count, bits)));
  }
}

__global__ void unpack_kernel(const std::byte* __restrict__ in, std::uint64_t n, unsigned bits,
                              std::byte* __restrict__ codes, Report* report) {
  bool dirty = false;
  for (std::uint64_t at = 8 * thread_of_grid(); at < n; at += 8 * threads_of_grid()) {
    const unsigned count = at_most(n - at, 8);
    const auto packed = load_word<std::uint64_t>(in + at / 8 * bits, static_cast<unsigned>(packed_bytes(count, bits)));
    dirty = dirty || (count < 8 && packed >> count * bits != 0);
    store_word(spread(packed, bits), codes + at, count);
  }
  raise(&report->misfit, dirty ? 1 : 0);
}

}  // namespace

Result<void> pack(const std::byte* codes, std::uint64_t n, unsigned bits, std::byte* out, StreamHandle stream) {
  if (n == 0) return {};
  return launch("pack", pack_kernel, shape_for(n, 8), stream, codes, n, bits, out);
}

Result<void> unpack(const std::byte* in, std::uint64_t n, unsigned bits, std::byte* codes, Report* report,
                    StreamHandle stream) {
  if (n == 0) return {};
  return launch("unpack", unpack_kernel, shape_for(n, 8), stream, in, n, bits, codes, report);
}

}  // namespace weir::cuda
