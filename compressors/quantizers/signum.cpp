#include "compressors/quantizers/signum.hpp"

#include <algorithm>

#include "compressors/device/codes.hpp"
#include "compressors/device/memory_steps.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/arithmetic.hpp"
#include "compressors/kernels/quantization/signs.hpp"
#include "compressors/non_finite.hpp"
#include "compressors/round_key.hpp"

namespace weir::compressors {

protocol::Params<Signum::Options> Signum::params() {
  return protocol::Params<Options>().number("momentum", &Options::momentum, {.minimum = 0.0, .maximum = 0.9999},
                                            "Share of the momentum that is kept.");
}

std::vector<NamedTensor> Signum::save() const {
  std::vector<NamedTensor> state;
  momenta_.save(state);
  return state;
}

Result<void> Signum::do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) {
  if (!gradient.is_cpu() && gradient.numel() > 0) return encode_from_device(gradient, round, out);
  // Checked first, so that a gradient that is refused leaves no trace in the momentum.
  const auto finite = all_finite(gradient);
  if (!finite) return finite.error();
  if (!*finite) return non_finite(round, gradient);
  auto momentum = momenta_.of(round, gradient);
  if (!momentum) return momentum.error();
  momentum_ = std::move(*momentum);
  return SignVote::do_encode(gradient, round, out);
}

bool Signum::write(std::span<const float> values, const Extent&, const Round& round, std::span<std::byte> code) {
  constexpr std::size_t block = 4 * vote_block;  // entries: accumulated and read while they are in the cache
  const auto beta = static_cast<float>(options_.momentum);
  const std::span<float> momentum = flat(momentum_);
  for (std::size_t start = 0; start < values.size(); start += block) {
    const auto part = values.subspan(start, std::min(block, values.size() - start));
    const auto kept = momentum.subspan(start, part.size());
    accumulate_residual(beta, 1 - beta, part, kept);
    write_votes(kept, start, key_of_rank(round), code.subspan(start / 8, sign_bytes(part.size())));
  }
  return true;
}

Result<void> Signum::do_begin(std::span<const at::Tensor> gradients, std::span<const Round> rounds) {
  const auto beta = static_cast<float>(options_.momentum);
  std::vector<at::Tensor> momenta;
  if (auto found = momenta_.all_beside(rounds, gradients, momenta); !found) return found;
  std::vector<device::ResidualOf> steps;
  std::vector<at::Tensor> next;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    next.push_back(at::empty_like(momenta[i]));
    steps.push_back({beta, 1 - beta, gradients[i], next.back(), nullptr, momenta[i]});
  }
  auto done = device::accumulate_residual(steps);
  if (done) done = SignVote::do_begin(next, rounds);
  if (!done) return done;
  for (std::size_t i = 0; i < next.size(); ++i) next_.put(rounds[i], std::move(next[i]));
  return {};
}

Result<void> Signum::encode_from_device(const at::Tensor& gradient, const Round& round, Bytes& out) {
  at::Tensor next = next_.take(round);
  if (!next.defined()) {
    if (auto begun = Signum::do_begin(std::span(&gradient, 1), std::span(&round, 1)); !begun) return begun;
    next = next_.take(round);
  }
  // A gradient that is not finite has left such a momentum, which is not kept.
  auto encoded = SignVote::do_encode(next, round, out);
  if (encoded) momenta_.put(round, std::move(next));
  return encoded;
}

Result<void> Signum::begin_on_device(std::span<const device::ToCode> tensors, std::span<const Round>) {
  return device::begin_votes(tensors);
}

}  // namespace weir::compressors
