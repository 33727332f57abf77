#include "training/servers/shard.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/errc.hpp"
#include "compressors/flat.hpp"

namespace weir::training::servers {
namespace {

constexpr std::string_view pushed_name = "pushed";

}  // namespace

Shard::Shard(std::vector<NamedTensor> parameters, std::vector<std::uint32_t> own, std::unique_ptr<Optimizer> optimizer,
             const compressors::Compression& compression, const CodingSetting& setting)
    : own_(std::move(own)),
      optimizer_(std::move(optimizer)),
      coder_(compression, setting),
      copies_(setting.workers),
      pushed_(setting.workers, std::vector<std::uint64_t>(own_.size())) {
  const at::NoGradGuard no_grad;
  for (const auto parameter : own_) {
    own_tensors_.push_back(parameters[parameter]);
    const at::Tensor values = parameters[parameter].tensor.detach();
    means_.push_back({.tensor = at::zeros_like(values), .sparse = false, .positions = {}});
    for (auto& copies : copies_) copies.push_back(values.clone());
  }
}

Result<void> Shard::apply(std::span<Pushed> pushes, double learning_rate, const PushRule& rule) {
  const at::NoGradGuard no_grad;
  const float weight = 1 / static_cast<float>(pushes.size());
  for (std::size_t i = 0; i < own_.size(); ++i) {
    Mean& mean = means_[i];
    if (auto restarted = restart(mean, /*sparse=*/false); !restarted) return restarted;
    for (auto& push : pushes) {
      const bool fresh = &push == &pushes.front();
      const auto before = push.tensors.left();
      auto read = coder_.read_gradient(push.tensors, own_[i], push.turn, weight, fresh, mean);
      if (!read) return of(read.error(), i, push.turn.worker);
      push.bytes.push_back(before - push.tensors.left());
      for (auto& pushed : pushed_) pushed[i] += *read;
      // At every one, so that it is known whose it was. (What is there before it was finite.)
      const auto values = compressors::flat(std::as_const(mean.tensor));
      if (compressors::find_non_finite(values) != values.size()) {
        return of({Errc::malformed, "it is not finite"}, i, push.turn.worker);
      }
    }
    if (pushes.size() == 1 && rule.corrects()) {
      rule.correct(mean.tensor, own_tensors_[i].tensor.detach(), copies_[pushes.front().turn.worker][i]);
    }
  }
  optimizer_->step(means_, learning_rate);
  return {};
}

Result<std::vector<std::size_t>> Shard::answer(const Turn& turn, Bytes& out) {
  const at::NoGradGuard no_grad;
  std::vector<std::size_t> bytes;
  for (std::size_t i = 0; i < own_.size(); ++i) {
    const std::uint64_t pushed = std::exchange(pushed_[turn.worker][i], 0);
    const auto before = out.size();
    auto written =
        coder_.write_difference(own_[i], own_tensors_[i].tensor.detach(), copies_[turn.worker][i], turn, pushed, out);
    if (!written) return written.error().within("parameter " + own_tensors_[i].name);
    bytes.push_back(out.size() - before);
  }
  return bytes;
}

std::vector<NamedTensor> Shard::copies_of(std::uint32_t worker) const {
  std::vector<NamedTensor> copies;
  for (std::size_t i = 0; i < own_.size(); ++i) copies.push_back({own_tensors_[i].name, copies_[worker][i]});
  return copies;
}

NamedTensor Shard::save_pushed() const {
  const auto workers = static_cast<std::int64_t>(pushed_.size());
  const at::Tensor numbers = at::empty({workers, static_cast<std::int64_t>(own_.size())}, at::kLong);
  auto* next = numbers.data_ptr<std::int64_t>();
  for (const auto& of_worker : pushed_) {
    for (const auto pushed : of_worker) *next++ = static_cast<std::int64_t>(pushed);
  }
  return {std::string(pushed_name), numbers};
}

Result<void> Shard::restore_pushed(std::span<const NamedTensor> state) {
  const auto found = std::ranges::find(state, pushed_name, &NamedTensor::name);
  const std::array due{static_cast<std::int64_t>(pushed_.size()), static_cast<std::int64_t>(own_.size())};
  const Error malformed{Errc::malformed, "checkpoint: the numbers of pushed entries are not those of this server"};
  if (found == state.end() || found->tensor.scalar_type() != at::kLong ||
      found->tensor.sizes() != at::IntArrayRef(due)) {
    return malformed;
  }
  const at::Tensor numbers = found->tensor.contiguous();
  const auto* next = numbers.data_ptr<std::int64_t>();
  for (auto& of_worker : pushed_) {
    for (auto& pushed : of_worker) {
      if (*next < 0) return malformed;
      pushed = static_cast<std::uint64_t>(*next++);
    }
  }
  return {};
}

Error Shard::of(const Error& error, std::size_t index, std::uint32_t rank) const {
  return error.within("gradient of " + own_tensors_[index].name + " of rank " + std::to_string(rank));
}

}  // namespace weir::training::servers
