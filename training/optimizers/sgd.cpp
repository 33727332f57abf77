#include "training/optimizers/sgd.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "training/device.hpp"
#include "training/optimizers/slices.hpp"

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
      momenta_(setting_.parameters.size()) {}

/// Returns what is to be subtracted for `direction`, whose momentum is `momentum`.
at::Tensor Sgd::with_momentum(at::Tensor direction, at::Tensor momentum, bool first) const {
  if (!momentum.defined()) return direction;
  if (first) {
    momentum.copy_(direction);
  } else {
    momentum.mul_(options_.momentum).add_(direction);
  }
  return options_.nesterov ? direction.add(momentum, options_.momentum) : momentum;
}

void Sgd::step(std::span<Mean> means, double rate_of_step) {
  const at::NoGradGuard no_grad;
  ensure(means.size() == setting_.parameters.size(), "one mean per parameter");
  const auto owner = setting_.momentum_owner;
  for (std::size_t i = 0; i < means.size(); ++i) {
    at::Tensor parameter = setting_.parameters[i].tensor;
    const double learning_rate = rate_of_step * rules_[i].lr_scale;
    const double decay = rules_[i].weight_decay;
    const bool decays = decay != 0;
    const bool has_momentum =
        options_.momentum != 0 && (owner == MomentumOwner::optimizer || (owner == MomentumOwner::memory && decays));
    if (means[i].sparse && !decays && !has_momentum) {
      add_at(means[i], static_cast<float>(-learning_rate), parameter);
      continue;
    }
    const bool first = has_momentum && !momenta_[i].defined();
    if (first) momenta_[i] = at::empty_like(parameter, at::MemoryFormat::Contiguous);
    const at::Tensor all_parameters = parameter.view({-1});
    const at::Tensor all_means = means[i].tensor.view({-1});
    const at::Tensor all_momenta = has_momentum ? momenta_[i].view({-1}) : at::Tensor();
    for_slices(all_parameters, [&](std::int64_t begin, std::int64_t count) {
      change(all_parameters.narrow(0, begin, count), all_means.narrow(0, begin, count),
             has_momentum ? all_momenta.narrow(0, begin, count) : at::Tensor(), first, decay, learning_rate);
    });
  }
}

void Sgd::change(at::Tensor parameter, const at::Tensor& mean, const at::Tensor& momentum, bool first, double decay,
                 double learning_rate) const {
  const bool decays = decay != 0;
  switch (setting_.momentum_owner) {
    case MomentumOwner::optimizer: {
      const auto direction = decays ? mean.add(parameter, decay) : mean;
      parameter.add_(with_momentum(direction, momentum, first), -learning_rate);
      break;
    }
    case MomentumOwner::memory: {
      if (decays) {
        parameter.add_(with_momentum(parameter.mul(decay), momentum, first), -learning_rate);
      }
      parameter.add_(mean, -learning_rate);
      break;
    }
    case MomentumOwner::method: {
      if (decays) parameter.mul_(1 - learning_rate * decay);
      parameter.add_(mean, -learning_rate);
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
