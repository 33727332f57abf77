#include "actors/exchange/owner.hpp"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "base/errc.hpp"
#include "compressors/flat.hpp"
#include "compressors/memories/misfit.hpp"

namespace weir::actors {

using compressors::NamedTensor;
using compressors::Round;

Owner::Owner(compressors::Compressor& compressor, std::span<const NamedTensor> parameters,
             std::span<const Piece> pieces, std::uint32_t rank)
    : compressor_(compressor), keeps_residual_(!compressors::no_mean_residual(compressor)), works_(pieces.size()) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].owner != rank) continue;
    const auto& [name, tensor] = parameters[pieces[i].parameter];
    works_[i] = {
        .piece = &pieces[i], .name = &name, .mean = at::zeros(pieces[i].of(tensor).sizes(), at::kFloat), .entries = {}};
    if (compressor.traits().sparse) works_[i].entries.emplace();
  }
}

Result<void> Owner::add(std::size_t piece, BytesView payload, const Round& round, float share) {
  return compressor_.decode_add(payload, round, share, works_[piece].mean);
}

void Owner::add(std::size_t piece, std::span<const std::uint32_t> positions, std::span<const float> values,
                float share) {
  Work& work = works_[piece];
  const auto mean = compressors::flat(work.mean);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    mean[positions[i] - work.piece->first_entry] += share * values[i];
  }
}

Result<void> Owner::encode(std::size_t piece, const Round& round, Bytes& out) {
  Work& work = works_[piece];
  return compressor_.encode(work.mean, round, out, work.entries ? &*work.entries : nullptr);
}

void Owner::take(std::size_t piece, const at::Tensor& decoded) {
  const auto mean = compressors::flat(works_[piece].mean);
  if (!keeps_residual_) {
    std::ranges::fill(mean, 0.0F);
    return;
  }
  const auto sent = compressors::flat(decoded);
  for (std::size_t i = 0; i < mean.size(); ++i) mean[i] -= sent[i];
}

void Owner::save(std::vector<NamedTensor>& state) const {
  if (!keeps_residual_) return;
  for (const Work& work : works_) {
    if (work.piece != nullptr) state.push_back({*work.name, work.mean});
  }
}

Result<void> Owner::restore(std::span<const NamedTensor> state) {
  if (!keeps_residual_) return {};
  for (Work& work : works_) {
    if (work.piece == nullptr) continue;
    const auto found = std::ranges::find(state, *work.name, &NamedTensor::name);
    if (found == state.end() || found->tensor.sizes() != work.mean.sizes() ||
        found->tensor.scalar_type() != at::kFloat) {
      return Error{Errc::malformed, "no residual of this rank's share of " + *work.name};
    }
    work.mean.copy_(found->tensor);
  }
  return {};
}

}  // namespace weir::actors
