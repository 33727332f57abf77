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

Result<void> Signum::begin_on_device(const at::Tensor& values, const Extent&, const Round& round,
                                     const device::CodePlace& to) {
  const auto beta = static_cast<float>(options_.momentum);
  auto done = device::accumulate_residual(beta, 1 - beta, values, momentum_);
  return done ? device::begin_votes(momentum_, key_of_rank(round), to) : done;
}

}  // namespace weir::compressors
