#include "compressors/memories/ef21_memory.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>

#include "compressors/device/memory_steps.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/arithmetic.hpp"
#include "compressors/memories/misfit.hpp"

namespace weir::compressors {

protocol::Params<Ef21Memory::Options> Ef21Memory::params() {
  return protocol::Params<Options>().number(
      "momentum", &Options::momentum, {.minimum = 0.0, .maximum = 0.9999},
      "Share of the running mean of gradients that is kept (EF21-SGDM), in the place of the optimizer's "
      "momentum; 0: the gradient itself is estimated (EF21).");
}

std::optional<std::string> Ef21Memory::misfit(const Compressor& compressor) { return no_mean_residual(compressor); }

MemoryTraits Ef21Memory::traits() const {
  MemoryTraits traits = type_traits;
  traits.replaces_momentum = options_.momentum > 0;
  return traits;
}

Result<at::Tensor> Ef21Memory::target_of(const at::Tensor& gradient, const Round& round) {
  if (options_.momentum == 0) return gradient;
  if (!average_.find(round)) {
    average_.put(round, gradient.clone(at::MemoryFormat::Contiguous));
    return average_.of(round, gradient);
  }
  auto average = average_.of(round, gradient);
  if (!average) return average;
  const auto kept = static_cast<float>(options_.momentum);
  if (!gradient.is_cpu()) {
    auto done = device::accumulate_residual(kept, 1 - kept, gradient, *average);
    return done ? average : Result<at::Tensor>(done.error());
  }
  accumulate_residual(kept, 1 - kept, flat(gradient), flat(*average));
  return average;
}

Result<at::Tensor> Ef21Memory::compensate(const at::Tensor& gradient, const Round& round) {
  auto own = own_.of(round, gradient);
  if (!own) return own;
  auto missing = missing_.of(round, gradient);
  if (!missing) return missing;
  auto target = target_of(gradient, round);
  if (!target) return target;
  if (!gradient.is_cpu()) {
    auto done = device::subtract(*target, *own, *missing);
    return done ? missing : Result<at::Tensor>(done.error());
  }
  subtract(flat(*target), flat(*own), flat(*missing));
  return missing;
}

Result<void> Ef21Memory::update(const Round& round, const Sent& sent, at::Tensor& mean) {
  auto own = own_.of(round, mean.sizes());
  if (!own) return own.error();
  auto shared = shared_.of(round, mean);
  if (!shared) return shared.error();
  if (auto added = sent.add_to(*own, 1); !added) return added;
  if (!mean.is_cpu()) {
    auto added = device::accumulate_residual(1, 1, mean, *shared);
    if (added) mean.copy_(*shared);
    return added;
  }
  accumulate_residual(1, 1, flat(std::as_const(mean)), flat(*shared));
  std::ranges::copy(flat(std::as_const(*shared)), flat(mean).begin());
  return {};
}

bool Ef21Memory::add_unsent(const Round& round, std::uint64_t first, std::span<const float> values) {
  std::vector<float> taken_back(values.size());
  std::ranges::transform(values, taken_back.begin(), std::negate());
  return own_.add(round, first, taken_back);
}

Result<at::Tensor> Ef21Memory::compensate_dense(const at::Tensor& gradient, const Round& round) {
  auto own = own_.of(round, gradient);
  if (!own) return own;
  auto target = target_of(gradient, round);
  if (!target) return target;
  own->copy_(*target);
  return own;
}

Result<void> Ef21Memory::average_dense(at::Tensor& mean, const Round& round) {
  if (!own_.find(round)) {  // a tensor that is never compressed
    const auto target = target_of(mean, round);
    if (!target) return target.error();
    if (!target->is_same(mean)) mean.copy_(*target);
    return {};
  }
  auto shared = shared_.of(round, mean);
  if (!shared) return shared.error();
  shared->copy_(mean);
  return {};
}

std::vector<NamedTensor> Ef21Memory::save() const {
  std::vector<NamedTensor> state;
  own_.save(state);
  shared_.save(state);
  average_.save(state);
  return state;
}

Result<void> Ef21Memory::restore(std::span<const NamedTensor> state) {
  missing_.clear();
  return restore_stores(state, {&own_, &shared_, &average_});
}

}  // namespace weir::compressors
