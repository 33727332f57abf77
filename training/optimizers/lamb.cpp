#include "training/optimizers/lamb.hpp"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>

#include <cstddef>
#include <cstdint>

#include "training/optimizers/norm.hpp"

namespace weir::training {
namespace {

/// |x| / |u| of each parameter, beside them; 1 where one of these is zero.
at::Tensor ratios_of(std::span<const at::Tensor> parameters, std::span<const at::Tensor> updates) {
  const at::Tensor lengths = sums_of_squares(parameters).sqrt();
  const at::Tensor update_lengths = sums_of_squares(updates).sqrt();
  const at::Tensor has_both = lengths.gt(0).logical_and(update_lengths.gt(0));
  return at::where(has_both, lengths.div(update_lengths), at::ones_like(lengths));
}

}  // namespace

void Lamb::step(std::span<Mean> means, double learning_rate) {
  const auto parameters = moments_.parameters();
  updates_.resize(parameters.size());
  moments_.step(means, [&](const Turn& turn, const ParameterRule& rule) {
    for (const auto i : turn) updates_[i] = at::empty_like(parameters[i], at::MemoryFormat::Contiguous);
    for_slices(turn, parameters, [&](const Slice& slice) {
      auto [numerators, denominators, divisor] = moments_.add(slice, slice.of(moments_.gradients()));
      const auto updates = slice.of(updates_);
      for (std::size_t i = 0; i < updates.size(); ++i) updates[i].copy_(numerators[i]);
      at::_foreach_div_(updates, denominators);
      at::_foreach_div_(updates, divisor);
      if (!rule.spared) at::_foreach_add_(updates, slice.of(parameters), rule.weight_decay);
    });
    const double rate = learning_rate * rule.lr_scale;
    if (rule.spared) {
      for_slices(turn, parameters,
                 [&](const Slice& slice) { at::_foreach_add_(slice.of(parameters), slice.of(updates_), -rate); });
    } else {
      subtract_at_length(turn, rate);
    }
    for (const auto i : turn) updates_[i].reset();
  });
}

/// Subtracts the updates of a turn, each at the length of its parameter times the rate.
void Lamb::subtract_at_length(const Turn& turn, double rate) {
  const auto parameters = moments_.parameters();
  const Slice all{turn};
  const at::Tensor factors = ratios_of(all.of(parameters), all.of(updates_)).mul(-rate).to(at::kFloat);
  for (std::size_t k = 0; k < turn.size(); ++k) {
    const at::Tensor factor = factors.select(0, static_cast<std::int64_t>(k));
    const Turn one{turn[k]};
    for_slices(one, parameters,
               [&](const Slice& slice) { slice.of(parameters).front().addcmul_(slice.of(updates_).front(), factor); });
  }
}

}  // namespace weir::training
