#include "compressors/memories/efsignsgd_memory.hpp"

#include <array>
#include <cstdint>
#include <utility>

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

Result<std::optional<float>> EfSignSgdMemory::share_kept(const Round& round) {
  auto kept = learning_rate_of(round);
  if (!kept) return kept.error();
  const float now = learning_rate_in(round);
  if (!(now > 0)) return std::optional<float>();
  const float last = std::exchange(flat(*kept)[0], now);
  return std::optional(static_cast<float>(options_.beta) * (last > 0 ? last / now : 1));
}

Result<at::Tensor> EfSignSgdMemory::compensate(const at::Tensor& gradient, const Round& round) {
  if (!gradient.is_cpu()) return compensate_by_all(gradient, round);
  auto residual = residuals_.of(round, gradient);
  if (!residual) return residual;
  const auto share = share_kept(round);
  if (!share) return share.error();
  if (!*share) return gradient;
  accumulate_residual(**share, 1, flat(gradient), flat(*residual));
  return residual;
}

Result<void> EfSignSgdMemory::compensate_all(std::span<const at::Tensor> gradients, std::span<const Round> rounds,
                                             std::vector<at::Tensor>& out) {
  if (gradients.empty() || gradients.front().is_cpu()) return Memory::compensate_all(gradients, rounds, out);
  if (auto found = residuals_.all_beside(rounds, gradients, out); !found) return found;
  std::vector<device::ResidualOf> all;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const auto share = share_kept(rounds[i]);
    if (!share) return share.error();
    if (*share) {
      all.push_back({**share, 1, gradients[i], out[i]});
    } else {
      out[i] = gradients[i];
    }
  }
  return device::accumulate_residual(all);
}

Result<void> EfSignSgdMemory::update(const Round& round, const Sent& sent, at::Tensor& mean) {
  if (!(learning_rate_in(round) > 0)) return {};
  auto residual = residuals_.of(round, mean.sizes());
  if (!residual) return residual.error();
  return sent.add_to(*residual, -1);
}

Result<void> EfSignSgdMemory::update_all(std::span<const Round> rounds, std::span<const Sent> sent,
                                         std::span<at::Tensor> means) {
  if (rounds.empty() || !(learning_rate_in(rounds.front()) > 0)) return {};  // all tensors have the same
  std::vector<at::Tensor> residuals;
  auto found = residuals_.all_of(rounds, means, residuals);
  return found ? Sent::add_all_to(residuals, sent, -1) : found;
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
