#include "training/exchange/owner.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <utility>

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
std::string learning_rate_of(const std::string& parameter) { return "owned_at." + parameter; }

/// As many votes for one sign as for the other add up to zero, but for rounding, and a rounding error is no vote.
void clear_ties(std::span<float> mean, std::uint32_t world) {
  const float least = 0.5F / static_cast<float>(world);  // a vote is 1 / world
  for (float& value : mean) value = std::abs(value) < least ? 0 : value;
}

}  // namespace

Owner::Owner(const compressors::Compression& compression, std::span<const NamedTensor> parameters,
             std::span<const Piece> pieces, std::optional<std::uint32_t> rank)
    : compressor_(*compression.compressor),
      keeps_residual_(!compressors::no_residual(compressor_)),
      follows_learning_rate_(keeps_residual_ && compression.memory->traits().follows_learning_rate),
      counts_signs_(compressor_.traits().votes && !keeps_residual_),
      works_(pieces.size()) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (rank && pieces[i].owner != *rank) continue;
    const auto& [name, tensor] = parameters[pieces[i].parameter];
    if (parameters_.empty() || parameters_.back().name != &name) parameters_.push_back({.name = &name, .first = i});
    ++parameters_.back().count;
    auto shape = tensor.sizes().vec();
    if (pieces[i].rows > 0) shape[0] = pieces[i].rows;
    works_[i].piece = &pieces[i];
    works_[i].mean.tensor = at::zeros(shape, at::kFloat);
    if (compressor_.traits().sparse) works_[i].entries.emplace();
  }
}

void Owner::begin(std::size_t piece, const Round& round) {
  const auto now = static_cast<float>(round.learning_rate);
  if (!follows_learning_rate_ || !(now > 0)) return;
  Work& work = works_[piece];
  const float last = std::exchange(work.learning_rate, now);
  if (work.owes && last > 0 && last != now) work.mean.tensor.mul_(last / now);
}

Result<void> Owner::encode(std::size_t piece, const Round& round, Bytes& out) {
  Work& work = works_[piece];
  if (counts_signs_) clear_ties(compressors::flat(work.mean.tensor), round.world);
  return encode_alone(compressor_, work.mean.tensor, round, out, work.entries ? &*work.entries : nullptr, alone_);
}

Result<void> Owner::take(std::size_t piece, BytesView payload, const Round& round) {
  Work& work = works_[piece];
  if (!keeps_residual_) {
    work.mean.tensor.zero_();
    return {};
  }
  work.owes = true;
  if (work.entries) {
    add_selection(-1, *work.entries, compressors::flat(work.mean.tensor));
    return {};
  }
  return compressor_.decode_add(payload, round, -1, work.mean.tensor);
}

void Owner::hand_over(std::size_t piece, compressors::Memory& memory, const Round& round) {
  Work& work = works_[piece];
  if (!work.owes) return;
  const std::uint64_t first = work.piece->first_entry;
  if (!memory.add_unsent(round, first, {})) return;  // it has no place for them: they need not be made
  const at::Tensor share = work.mean.tensor.mul(static_cast<double>(round.world));
  if (!memory.add_unsent(round, first, compressors::flat(share))) return;
  work.mean.tensor.zero_();
  work.owes = false;
}

void Owner::save(std::vector<NamedTensor>& state) const {
  if (!keeps_residual_) return;
  for (const OfParameter& of : parameters_) {
    const auto pieces = pieces_of(of);
    at::Tensor residual = pieces.front().mean.tensor;
    if (pieces.size() > 1) {
      std::vector<at::Tensor> parts;
      for (const Work& work : pieces) parts.push_back(work.mean.tensor);
      residual = at::cat(parts);
    }
    state.push_back({residual_of(*of.name), std::move(residual)});
    const auto first_entry = static_cast<std::int64_t>(pieces.front().piece->first_entry);
    state.push_back({first_entry_of(*of.name), at::full({1}, first_entry, at::kLong)});
    if (follows_learning_rate_) {
      state.push_back({learning_rate_of(*of.name), at::full({1}, pieces.front().learning_rate, at::kFloat)});
    }
  }
}

Result<void> Owner::restore(std::span<const NamedTensor> state) {
  if (!keeps_residual_) return {};
  for (const OfParameter& of : parameters_) {
    const std::uint64_t first_entry = works_[of.first].piece->first_entry;
    std::int64_t entries = 0;
    for (const Work& work : pieces_of(of)) entries += work.mean.tensor.numel();
    const auto found = residual_in(state, *of.name, static_cast<std::int64_t>(first_entry) + entries);
    if (!found) return found.error();
    if (!*found || (*found)->first_entry != first_entry || (*found)->values.numel() != entries) {
      return Error{Errc::malformed, "no residual of this rank's share of " + *of.name};
    }
    float learning_rate = 0;
    if (follows_learning_rate_) {
      const auto saved = std::ranges::find(state, learning_rate_of(*of.name), &NamedTensor::name);
      if (saved == state.end() || saved->tensor.scalar_type() != at::kFloat || saved->tensor.numel() != 1) {
        return Error{Errc::malformed, "no learning rate of this rank's share of " + *of.name};
      }
      learning_rate = saved->tensor.item<float>();
    }
    const at::Tensor values = (*found)->values.view(-1);
    std::int64_t begin = 0;
    for (std::size_t i = of.first; i < of.first + of.count; ++i) {
      at::Tensor& residual = works_[i].mean.tensor;
      residual.copy_(values.narrow(0, begin, residual.numel()).view(residual.sizes()));
      works_[i].owes = true;
      works_[i].learning_rate = learning_rate;
      begin += residual.numel();
    }
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
