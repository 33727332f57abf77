#include "training/optimizers/sgd.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "training/device.hpp"

namespace weir::training {
namespace {

/// parameter += factor * mean, where the mean is not zero. Uses the mean up.
void add_at(Mean& mean, float factor, at::Tensor& parameter) {
  constexpr std::size_t ahead = 16;  // positions lie far apart: what is on its way hides how long each takes
  auto* const values = parameter.data_ptr<float>();
  auto* const changes = mean.tensor.data_ptr<float>();
  const std::span<const std::uint32_t> positions = mean.positions;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (i + ahead < positions.size()) {
      __builtin_prefetch(values + positions[i + ahead], 1);
      __builtin_prefetch(changes + positions[i + ahead], 1);
    }
    values[positions[i]] += factor * changes[positions[i]];
    changes[positions[i]] = 0;  // the position may come again
  }
  mean.positions.clear();
}

}  // namespace

protocol::Params<Sgd::Options> Sgd::params() {
  return protocol::Params<Options>()
      .number("lr", &Options::lr, {.exclusive_minimum = 0}, "learning rate")
      .number("momentum", &Options::momentum, {.minimum = 0, .exclusive_maximum = 1}, "")
      .flag("nesterov", &Options::nesterov, "")
      .number("weight_decay", &Options::weight_decay, {.minimum = 0}, "")
      .flag("no_decay", &Options::no_decay, no_decay_means)
      .objects("groups", &Options::groups, ParameterGroup::params(), groups_max, groups_mean);
}

Result<std::unique_ptr<Optimizer>> Sgd::make(Options options, const OptimizerSetting& setting) {
  if (options.nesterov && options.momentum == 0) {
    return Error{Errc::invalid_argument, "optimizer sgd: nesterov needs momentum above 0"};
  }
  return std::make_unique<Sgd>(std::move(options), setting);
}

Sgd::Sgd(Options options, OptimizerSetting setting)
    : options_(std::move(options)),
      setting_(std::move(setting)),
      rules_(rules_of(setting_, options_.groups, options_.weight_decay, options_.no_decay)),
      parameters_(tensors_of(setting_.parameters)),
      turns_(turns_of(parameters_, rules_)),
      momenta_(parameters_.size()) {}

/// Returns what is to be subtracted for `directions`, whose momenta are `momenta`.
Sgd::Tensors Sgd::with_momentum(Tensors directions, const Tensors& momenta) const {
  if (momenta.empty()) return directions;
  at::_foreach_mul_(momenta, options_.momentum);
  at::_foreach_add_(momenta, directions);
  return options_.nesterov ? at::_foreach_add(directions, momenta, options_.momentum) : momenta;
}

void Sgd::step(std::span<Mean> means, double rate_of_step) {
  const at::NoGradGuard no_grad;
  ensure(means.size() == parameters_.size(), "one mean per parameter");
  const Tensors mean_tensors = tensors_of(means);
  for (const Turn& turn : turns_) {
    const ParameterRule& rule = rules_[turn.front()];
    const double learning_rate = rate_of_step * rule.lr_scale;
    const bool decays = rule.weight_decay != 0;
    const auto owner = setting_.momentum_owner;
    const bool has_momentum =
        options_.momentum != 0 && (owner == MomentumOwner::optimizer || (owner == MomentumOwner::memory && decays));
    if (means[turn.front()].sparse && !decays && !has_momentum) {  // on the processor: the turn is of one parameter
      add_at(means[turn.front()], static_cast<float>(-learning_rate), parameters_[turn.front()]);
      continue;
    }
    for (const auto i : turn) {
      if (has_momentum && !momenta_[i].defined()) {
        momenta_[i] = at::zeros_like(parameters_[i], at::MemoryFormat::Contiguous);
      }
    }
    for_slices(turn, parameters_, [&](const Slice& slice) {
      change(slice.of(parameters_), slice.of(mean_tensors), has_momentum ? slice.of(momenta_) : Tensors(),
             rule.weight_decay, learning_rate);
    });
  }
}

void Sgd::change(const Tensors& parameters, const Tensors& means, const Tensors& momenta, double decay,
                 double learning_rate) const {
  const bool decays = decay != 0;
  switch (setting_.momentum_owner) {
    case MomentumOwner::optimizer: {
      auto directions = decays ? at::_foreach_add(means, parameters, decay) : means;
      at::_foreach_add_(parameters, with_momentum(std::move(directions), momenta), -learning_rate);
      break;
    }
    case MomentumOwner::memory: {
      if (decays) {
        auto directions = at::_foreach_mul(parameters, decay);
        at::_foreach_add_(parameters, with_momentum(std::move(directions), momenta), -learning_rate);
      }
      at::_foreach_add_(parameters, means, -learning_rate);
      break;
    }
    case MomentumOwner::method: {
      if (decays) at::_foreach_mul_(parameters, 1 - learning_rate * decay);
      at::_foreach_add_(parameters, means, -learning_rate);
      break;
    }
  }
}

std::vector<NamedTensor> Sgd::save() const {
  std::vector<NamedTensor> state;
  for (std::size_t i = 0; i < momenta_.size(); ++i) {
    if (momenta_[i].defined()) state.push_back({"momentum." + setting_.parameters[i].name, momenta_[i]});
  }
  return state;
}

Result<void> Sgd::restore(std::span<const NamedTensor> state) {
  std::vector<at::Tensor> momenta(momenta_.size());
  for (const auto& saved : state) {
    const auto owner = std::ranges::find_if(
        setting_.parameters, [&](const NamedTensor& parameter) { return saved.name == "momentum." + parameter.name; });
    if (owner == setting_.parameters.end() || saved.tensor.sizes() != owner->tensor.sizes() ||
        saved.tensor.scalar_type() != owner->tensor.scalar_type()) {
      return Error{Errc::malformed, "optimizer sgd: the state '" + saved.name + "' fits no parameter"};
    }
    momenta[static_cast<std::size_t>(owner - setting_.parameters.begin())] = copy_beside(owner->tensor, saved.tensor);
  }
  momenta_ = std::move(momenta);
  return {};
}

}  // namespace weir::training
