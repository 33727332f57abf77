#include "training/optimizers/norm.hpp"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compressors/device/device.hpp"
#include "compressors/device/sums.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/arithmetic.hpp"
#include "training/device.hpp"

namespace weir::training {

at::Tensor sums_of_squares(std::span<const at::Tensor> tensors) {
  const at::Device device = tensors.front().device();
  if (compressors::device::has_kernels(device)) {
    std::vector<at::Tensor> contiguous;
    for (const auto& tensor : tensors) contiguous.push_back(tensor.detach().contiguous());
    const auto sums = compressors::device::sums_of_squares(contiguous);
    TORCH_CHECK(sums.has_value(), sums.error().message());
    return *sums;
  }
  const at::Tensor sums = at::empty({static_cast<std::int64_t>(tensors.size())}, at::TensorOptions(at::kDouble));
  auto* const to = sums.data_ptr<double>();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor values = on_host(tensors[i].detach()).contiguous();
    to[i] = compressors::sum_of_squares(compressors::flat(values));
  }
  return sums.to(device);
}

at::Tensor sum_by_halves(at::Tensor row) {
  while (row.numel() > 1) {
    const std::int64_t second = row.numel() / 2;
    const std::int64_t first = row.numel() - second;
    const at::Tensor sums = row.narrow(0, 0, first).clone();
    sums.narrow(0, 0, second).add_(row.narrow(0, first, second));
    row = sums;
  }
  return row.select(0, 0);
}

}  // namespace weir::training
