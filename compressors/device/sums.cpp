#include "compressors/device/sums.hpp"

#include <cstddef>
#include <vector>

#include "base/half.hpp"
#include "compressors/device/launching.hpp"
#include "cuda/kernels/arithmetic.hpp"
#include "cuda/kernels/half.hpp"
#include "cuda/kernels/trits.hpp"

namespace weir::compressors::device {
namespace {

Result<void> write(const at::Tensor& values, float share, const at::Tensor& to, cuda::Report* report) {
  const cuda::StreamHandle stream = current_handle(to);
  const std::uint64_t n = size_of(values);
  const float* const from = place<float>(values);
  if (to.scalar_type() == at::kHalf) return cuda::round_to(from, n, share, place<Half>(to), report, stream);
  if (to.scalar_type() == at::kBFloat16) return cuda::round_to(from, n, share, place<BFloat16>(to), report, stream);
  return cuda::copy_scaled(share, from, place<float>(to), n, report, stream);
}

}  // namespace

Result<bool> write_shares(std::span<const at::Tensor> values, float share, const at::Tensor& to,
                          const at::Tensor& copy) {
  const at::Tensor report = new_report(to);
  std::int64_t begin = 0;
  for (const at::Tensor& one : values) {
    const at::Tensor part = to.narrow(0, begin, one.numel());
    if (auto written = write(one, share, part, place<cuda::Report>(report)); !written) return written.error();
    begin += one.numel();
  }
  if (copy.defined()) copy.copy_(to, /*non_blocking=*/true);
  return read<cuda::Report>(report).largest < cuda::magnitude_infinite;
}

Result<bool> widen(const at::Tensor& sum, const at::Tensor& to) {
  const at::Tensor report = new_report(to);
  const auto widened = [&]<class Number>(const Number* from) {
    return cuda::widen(from, size_of(sum), place<float>(to), place<cuda::Report>(report), current_handle(to));
  };
  const auto done = sum.scalar_type() == at::kHalf ? widened(place<Half>(sum)) : widened(place<BFloat16>(sum));
  if (!done) return done.error();
  return read<cuda::Report>(report).misfit == 0;
}

Result<at::Tensor> sums_of_squares(std::span<const at::Tensor> tensors) {
  const at::Tensor& beside = tensors.front();
  std::uint64_t part_count = 0;
  for (const at::Tensor& one : tensors) part_count += cuda::size_parts(size_of(one));
  const at::Tensor parts = scratch(beside, part_count * sizeof(cuda::Size));
  // The kernel writes Sizes, whose second halves are the sums.
  static_assert(sizeof(cuda::Size) == 2 * sizeof(double) && offsetof(cuda::Size, squares) == sizeof(double));
  const auto count = static_cast<std::int64_t>(tensors.size());
  const at::Tensor sizes = at::empty({count, 2}, beside.options().dtype(at::kDouble));
  auto* part = place<cuda::Size>(parts);
  auto* size = place<cuda::Size>(sizes);
  std::vector<cuda::SizeToFind> all;
  for (const at::Tensor& one : tensors) {
    const std::uint64_t n = size_of(one);
    all.push_back({place<float>(one), n, part, size++});
    part += cuda::size_parts(n);
  }
  if (auto found = cuda::find_sizes(all, computing_handle(beside)); !found) return found.error();
  return sizes.select(1, 1);
}

void* current_cuda_stream(const at::Tensor& tensor) { return current_handle(tensor); }

}  // namespace weir::compressors::device
