#include "training/exchange/owner.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "base/errc.hpp"
#include "compressors/flat.hpp"
#include "compressors/memories/misfit.hpp"
#include "training/exchange/alone.hpp"

namespace weir::training {

using compressors::NamedTensor;
using compressors::Round;

namespace {

// Of the names in a state.
std::string residual_of(const std::string& parameter) { return "owned." + parameter; }
std::string first_entry_of(const std::string& parameter) { return "owned_from." + parameter; }

}  // namespace

Owner::Owner(compressors::Compressor& compressor, std::span<const NamedTensor> parameters,
             std::span<const Piece> pieces, std::uint32_t rank)
    : compressor_(compressor), keeps_residual_(!compressors::no_mean_residual(compressor)), works_(pieces.size()) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].owner != rank) continue;
    const auto& [name, tensor] = parameters[pieces[i].parameter];
    auto shape = tensor.sizes().vec();
    if (pieces[i].rows > 0) shape[0] = pieces[i].rows;
    works_[i].piece = &pieces[i];
    works_[i].name = &name;
    works_[i].mean.tensor = at::zeros(shape, at::kFloat);
    if (compressor.traits().sparse) works_[i].entries.emplace();
  }
}

Result<void> Owner::encode(std::size_t piece, const Round& round, Bytes& out) {
  Work& work = works_[piece];
  return encode_alone(compressor_, work.mean.tensor, round, out, work.entries ? &*work.entries : nullptr, alone_);
}

void Owner::take(std::size_t piece, const at::Tensor& decoded) {
  const auto mean = compressors::flat(works_[piece].mean.tensor);
  if (!keeps_residual_) {
    std::ranges::fill(mean, 0.0F);
    return;
  }
  const auto sent = compressors::flat(decoded);
  for (std::size_t i = 0; i < mean.size(); ++i) mean[i] -= sent[i];
  works_[piece].owes = true;
}

void Owner::hand_over(std::size_t piece, compressors::Memory& memory, const Round& round) {
  Work& work = works_[piece];
  if (!work.owes) return;
  const at::Tensor share = work.mean.tensor.mul(static_cast<double>(round.world));
  if (!memory.add_unsent(round, work.piece->first_entry, compressors::flat(share))) return;
  work.mean.tensor.zero_();
  work.owes = false;
}

void Owner::save(std::vector<NamedTensor>& state) const {
  if (!keeps_residual_) return;
  for (const Work& work : works_) {
    if (work.piece == nullptr) continue;
    state.push_back({residual_of(*work.name), work.mean.tensor});
    state.push_back(
        {first_entry_of(*work.name), at::full({1}, static_cast<std::int64_t>(work.piece->first_entry), at::kLong)});
  }
}

Result<void> Owner::restore(std::span<const NamedTensor> state) {
  if (!keeps_residual_) return {};
  for (Work& work : works_) {
    if (work.piece == nullptr) continue;
    const auto entries = static_cast<std::int64_t>(work.piece->first_entry) + work.mean.tensor.numel();
    const auto found = residual_in(state, *work.name, entries);
    if (!found) return found.error();
    if (!*found || (*found)->first_entry != work.piece->first_entry ||
        (*found)->values.sizes() != work.mean.tensor.sizes()) {
      return Error{Errc::malformed, "no residual of this rank's share of " + *work.name};
    }
    work.mean.tensor.copy_((*found)->values);
    work.owes = true;
  }
  return {};
}

Result<std::optional<Owner::Residual>> Owner::residual_in(std::span<const NamedTensor> state,
                                                          const std::string& parameter, std::int64_t entries) {
  const auto values = std::ranges::find(state, residual_of(parameter), &NamedTensor::name);
  const auto first = std::ranges::find(state, first_entry_of(parameter), &NamedTensor::name);
  if (values == state.end() && first == state.end()) return std::optional<Residual>();
  const Error malformed{Errc::malformed, "an owner's residual of " + parameter + " is not in its place"};
  if (values == state.end() || first == state.end() || values->tensor.scalar_type() != at::kFloat ||
      first->tensor.scalar_type() != at::kLong || first->tensor.numel() != 1) {
    return malformed;
  }
  const auto begin = first->tensor.item<std::int64_t>();
  if (begin < 0 || begin > entries || values->tensor.numel() > entries - begin) return malformed;
  return std::optional(Residual{static_cast<std::uint64_t>(begin), values->tensor.contiguous()});
}

}  // namespace weir::training
