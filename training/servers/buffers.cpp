#include "training/servers/buffers.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <cstring>
#include <string>

#include "base/errc.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/selection/selection.hpp"
#include "training/device.hpp"

namespace weir::training::servers {

std::uint64_t buffer_bytes(const Model& model) {
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : model.statistics()) bytes += tensor.nbytes();
  return bytes;
}

void append_buffers(const Model& model, Bytes& out) {
  std::vector<at::Tensor> statistics;
  for (const auto& [name, tensor] : model.statistics()) statistics.push_back(tensor);
  for (const at::Tensor& values : all_on_host(statistics)) append(out, std::as_bytes(compressors::flat(values)));
}

Result<void> MeanBuffers::take(std::uint32_t worker, BytesView bytes, const Model& model) {
  if (bytes.size() != buffer_bytes(model)) {
    return Error{Errc::malformed, std::to_string(bytes.size()) + " bytes of buffers where the model has " +
                                      std::to_string(buffer_bytes(model))};
  }
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  if (compressors::find_non_finite(values) != values.size())
    return Error{Errc::malformed, "buffers that are not finite"};
  of_[worker] = std::move(values);
  return {};
}

void MeanBuffers::put_into(const Model& model) const {
  const at::NoGradGuard no_grad;
  std::size_t senders = 0;
  for (const auto& one : of_) senders += one ? 1 : 0;
  if (senders == 0) return;
  std::size_t first = 0;
  for (const auto& [name, tensor] : model.statistics()) {
    at::Tensor mean = at::zeros(tensor.sizes(), at::kFloat);  // in the order of the bytes, whatever its own is
    const auto sum = compressors::flat(mean);
    for (const auto& one : of_) {
      for (std::size_t i = 0; one && i < sum.size(); ++i) sum[i] += (*one)[first + i] / static_cast<float>(senders);
    }
    at::Tensor(tensor).copy_(mean);
    first += sum.size();
  }
}

}  // namespace weir::training::servers
