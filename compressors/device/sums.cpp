#include "compressors/device/sums.hpp"

#include "base/half.hpp"
#include "compressors/device/launching.hpp"
#include "cuda/kernels/arithmetic.hpp"
#include "cuda/kernels/half.hpp"
#include "cuda/memory.hpp"

namespace weir::compressors::device {
namespace {

/// Fills a tensor of a Report or of floats with zeros.
Result<void> clear(const at::Tensor& tensor) {
  return cuda::fill_bytes(place<std::byte>(tensor), tensor.nbytes(), std::byte{0}, current_handle(tensor));
}

Result<void> write(const at::Tensor& values, float share, const at::Tensor& to, cuda::Report* report) {
  const cuda::StreamHandle stream = current_handle(to);
  const std::uint64_t n = size_of(values);
  const float* const from = place<float>(values);
  if (to.scalar_type() == at::kHalf) return cuda::round_to(from, n, share, place<Half>(to), report, stream);
  if (to.scalar_type() == at::kBFloat16) return cuda::round_to(from, n, share, place<BFloat16>(to), report, stream);
  return cuda::copy_scaled(share, from, place<float>(to), n, report, stream);
}

}  // namespace

Result<bool> write_shares(std::span<const at::Tensor> values, float share, const at::Tensor& to) {
  const at::Tensor report = scratch(to, sizeof(cuda::Report));
  if (auto cleared = clear(report); !cleared) return cleared.error();
  std::int64_t begin = 0;
  for (const at::Tensor& one : values) {
    const at::Tensor part = to.narrow(0, begin, one.numel());
    if (auto written = write(one, share, part, place<cuda::Report>(report)); !written) return written.error();
    begin += one.numel();
  }
  return read<cuda::Report>(report).largest < cuda::magnitude_infinite;
}

Result<bool> widen(const at::Tensor& sum, const at::Tensor& to) {
  const at::Tensor report = scratch(to, sizeof(cuda::Report));
  auto* const found = place<cuda::Report>(report);
  const cuda::StreamHandle stream = current_handle(to);
  auto done = clear(report);
  if (done) done = clear(to);
  if (done && sum.scalar_type() == at::kHalf) {
    done = cuda::add_scaled(1, place<Half>(sum), size_of(sum), place<float>(to), found, stream);
  } else if (done) {
    done = cuda::add_scaled(1, place<BFloat16>(sum), size_of(sum), place<float>(to), found, stream);
  }
  if (!done) return done.error();
  return read<cuda::Report>(report).misfit == 0;
}

void* current_cuda_stream(const at::Tensor& tensor) { return current_handle(tensor); }

}  // namespace weir::compressors::device
