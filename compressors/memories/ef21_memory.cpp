#include "compressors/memories/ef21_memory.hpp"

#include <ATen/ATen.h>

#include <algorithm>

#include "compressors/flat.hpp"
#include "compressors/kernels/arithmetic.hpp"
#include "compressors/memories/misfit.hpp"

namespace weir::compressors {

std::optional<std::string> Ef21Memory::misfit(const Compressor& compressor) { return no_mean_residual(compressor); }

Result<at::Tensor> Ef21Memory::compensate(const at::Tensor& gradient, const Round& round) {
  const auto own = own_.of(round, gradient);
  if (!own) return own;
  // A tensor of its own: tensors of one bucket are all compensated before the first of them is updated.
  at::Tensor missing = own->neg();
  accumulate_residual(1, 1, flat(gradient), flat(missing));
  return missing;
}

Result<void> Ef21Memory::update(const Round& round, Compressor& compressor, BytesView payload, at::Tensor& mean) {
  auto own = own_.of(round, mean);
  if (!own) return own.error();
  auto shared = shared_.of(round, mean);
  if (!shared) return shared.error();
  if (auto added = compressor.decode_add(payload, round, 1, *own); !added) return added;
  accumulate_residual(1, 1, flat(std::as_const(mean)), flat(*shared));
  std::ranges::copy(flat(std::as_const(*shared)), flat(mean).begin());
  return {};
}

Result<at::Tensor> Ef21Memory::compensate_dense(const at::Tensor& gradient, const Round& round) {
  auto own = own_.of(round, gradient);
  if (!own) return own;
  std::ranges::copy(flat(gradient), flat(*own).begin());
  return own;
}

Result<void> Ef21Memory::average_dense(at::Tensor& mean, const Round& round) {
  if (!own_.find(round)) return {};  // a tensor that is never compressed
  auto shared = shared_.of(round, mean);
  if (!shared) return shared.error();
  std::ranges::copy(flat(std::as_const(mean)), flat(*shared).begin());
  return {};
}

std::vector<NamedTensor> Ef21Memory::save() const {
  std::vector<NamedTensor> state;
  own_.save(state);
  shared_.save(state);
  return state;
}

Result<void> Ef21Memory::restore(std::span<const NamedTensor> state) {
  return restore_stores(state, {&own_, &shared_});
}

}  // namespace weir::compressors
