#include "compressors/memories/efsignsgd_memory.hpp"

#include <array>
#include <cstdint>

#include "compressors/device/memory_steps.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/arithmetic.hpp"
#include "compressors/memories/misfit.hpp"

namespace weir::compressors {
namespace {

/// The learning rate in the precision in which it is saved, so that a restored memory continues with the same bits.
float learning_rate_in(const Round& round) { return static_cast<float>(round.learning_rate); }

}  // namespace

protocol::Params<EfSignSgdMemory::Options> EfSignSgdMemory::params() {
  return protocol::Params<Options>().number("beta", &Options::beta, {.minimum = 0.0, .maximum = 1.0},
                                            "Share of what is owed to the weights that is kept from step to step.");
}

std::optional<std::string> EfSignSgdMemory::misfit(const Compressor& compressor) { return no_residual(compressor); }

Result<at::Tensor> EfSignSgdMemory::learning_rate_of(const Round& round) {
  constexpr std::array<std::int64_t, 1> one_number = {1};
  return learning_rates_.of(round, at::IntArrayRef(one_number));
}

Result<at::Tensor> EfSignSgdMemory::compensate(const at::Tensor& gradient, const Round& round) {
  auto residual = residuals_.of(round, gradient);
  if (!residual) return residual;
  auto kept = learning_rate_of(round);
  if (!kept) return kept;
  const float now = learning_rate_in(round);
  if (!(now > 0)) return gradient;
  float& last = flat(*kept)[0];
  const float kept_share = static_cast<float>(options_.beta) * (last > 0 ? last / now : 1);
  if (!gradient.is_cpu()) {
    auto done = device::accumulate_residual(kept_share, 1, gradient, *residual);
    if (!done) return done.error();
  } else {
    accumulate_residual(kept_share, 1, flat(gradient), flat(*residual));
  }
  last = now;
  return residual;
}

Result<void> EfSignSgdMemory::update(const Round& round, const Sent& sent, at::Tensor& mean) {
  if (!(learning_rate_in(round) > 0)) return {};
  auto residual = residuals_.of(round, mean.sizes());
  if (!residual) return residual.error();
  return sent.add_to(*residual, -1);
}

Result<void> EfSignSgdMemory::average_dense(at::Tensor&, const Round& round) {
  if (learning_rate_in(round) > 0) residuals_.clear(round);
  return {};
}

std::vector<NamedTensor> EfSignSgdMemory::save() const {
  std::vector<NamedTensor> state;
  residuals_.save(state);
  learning_rates_.save(state);
  return state;
}

Result<void> EfSignSgdMemory::restore(std::span<const NamedTensor> state) {
  return restore_stores(state, {&residuals_, &learning_rates_});
}

}  // namespace weir::compressors
