#include "training/exchange/handover.hpp"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/errc.hpp"
#include "collectives/hosts.hpp"
#include "collectives/topologies/tree.hpp"
#include "compressors/flat.hpp"
#include "compressors/memories/tensor_store.hpp"
#include "training/exchange/agreement.hpp"
#include "training/exchange/owner.hpp"

namespace weir::training {
namespace {

using collectives::Task;
using compressors::flat;

constexpr std::string_view layout_name = "layout";
constexpr std::int64_t layout_numbers = 4;  ///< before those of the parameters

// What owners own, in a layout.
constexpr std::int64_t own_shares = 0;
constexpr std::int64_t own_regions = 1;
constexpr std::int64_t own_by_hops = 2;

/// Sums `values` of the ranks of each host to its leader.
Result<void> sum_within_hosts(collectives::Fabric& fabric, std::span<float> values) {
  return fabric.thread().run([&]() -> Task<> {
    collectives::Hosts hosts(fabric.lane(0));
    collectives::Tree within(hosts.neighbours());
    const collectives::Buffer buffer{std::as_writable_bytes(values)};
    auto summing = within.combine_to(buffer, 0, collectives::ReduceOp::sum, collectives::Subject());
    co_return co_await summing;
  });
}

class HandOver {
 public:
  HandOver(collectives::Fabric& fabric, const RoundSetting& setting, const Layout& before,
           std::span<const NamedTensor> state)
      : fabric_(fabric),
        setting_(setting),
        before_(before),
        state_(state),
        unsent_(setting.compression.memory->unsent()) {}

  Result<void> run() {
    if (auto read = read_residuals(); !read) return read;
    const bool others = before_.world != setting_.world || before_.encodes != setting_.encodes;
    const auto& [compressor, memory] = setting_.compression;
    const bool bound = !compressor->save().empty() || (unsent_ == nullptr && !memory->save().empty());
    const bool left_out = std::ranges::any_of(residuals_, [](const OwnersResidual& one) { return one.is_not_zero(); });
    std::array flags{others ? 1.0F : 0.0F, bound ? 1.0F : 0.0F, left_out && unsent_ == nullptr ? 1.0F : 0.0F};
    if (auto agreed = agree_on_largest(fabric_, flags); !agreed) return agreed;
    const bool others_encode = flags[0] > 0;
    if (others_encode && flags[1] > 0) return of_others();
    if (flags[2] > 0) return no_place();
    return unsent_ == nullptr ? Result<void>() : others_encode ? divide_anew() : keep_residuals();
  }

 private:
  Result<void> read_residuals() {
    for (std::uint32_t p = 0; p < setting_.parameters.size(); ++p) {
      const auto& [name, tensor] = setting_.parameters[p];
      auto found = Owner::residual_in(state_, name, tensor.numel());
      if (!found) return found.error();
      if (*found) residuals_.push_back({p, std::move(**found)});
    }
    return {};
  }

  Error of_others() const {
    return {Errc::conflict,
            "the checkpoint has what " + std::to_string(before_.world) + " workers keep for compressor \"" +
                std::string(setting_.compression.compressor->name()) + "\" with memory \"" +
                std::string(setting_.compression.memory->name()) + "\", and here " + std::to_string(setting_.world) +
                " workers encode, or others, because gradients are summed within hosts before they are encoded, or are "
                "not any more: set exchange.topology as in the job that wrote it, with as many workers on each host"};
  }

  Error no_place() const {
    return {Errc::conflict,
            "in the checkpoint " + std::to_string(before_.owners) +
                " workers own shares of the gradients and have left something out of their means, which nobody would "
                "send here, because memory \"" +
                std::string(setting_.compression.memory->name()) +
                "\" keeps nothing: set exchange.topology, exchange.params and exchange.bucket_bytes as in the job that "
                "wrote it"};
  }

  /// The same ranks encode: each keeps what it has, and has left out as an owner.
  Result<void> keep_residuals() {
    for (const OwnersResidual& one : residuals_) {
      if (auto added = add(one, static_cast<float>(setting_.world)); !added) return added;
    }
    return {};
  }

  /// Other ranks encode: what all ranks have not sent is their part in the mean times the number of them.
  Result<void> divide_anew() {
    std::vector<float> known(setting_.parameters.size());
    for (std::uint32_t p = 0; p < known.size(); ++p) known[p] = unsent_->find(round(p)) ? 1 : 0;
    for (const OwnersResidual& one : residuals_) known[one.parameter] = 1;
    if (auto agreed = agree_on_largest(fabric_, known); !agreed) return agreed;
    for (std::uint32_t p = 0; p < known.size(); ++p) {
      if (known[p] == 0) continue;
      auto tensor = unsent_->of(round(p), setting_.parameters[p].tensor.sizes());
      if (!tensor) return tensor.error();
      tensor->mul_(before_.encodes ? 1.0 / before_.world : 0.0);
      const auto own = std::ranges::find(residuals_, p, &OwnersResidual::parameter);
      if (own != residuals_.end()) {
        if (auto added = add(*own, 1); !added) return added;
      }
      if (setting_.by_hosts) {
        if (auto summed = sum_within_hosts(fabric_, flat(*tensor)); !summed) return summed;
      }
      tensor->mul_(setting_.encodes ? static_cast<double>(setting_.world) : 0.0);
      if (!setting_.encodes) tensor->zero_();  // whatever the sum has left there
    }
    return {};
  }

  compressors::Round round(std::uint32_t parameter) const { return setting_.round({}, parameter); }

  struct OwnersResidual {
    std::uint32_t parameter = 0;
    Owner::Residual residual;

    bool is_not_zero() const {
      return std::ranges::any_of(flat(residual.values), [](float value) { return value != 0; });
    }
  };

  Result<void> add(const OwnersResidual& one, float factor) {
    auto tensor = unsent_->of(round(one.parameter), setting_.parameters[one.parameter].tensor.sizes());
    if (!tensor) return tensor.error();
    const at::Tensor values = one.residual.values.mul(factor);
    unsent_->add(round(one.parameter), one.residual.first_entry, flat(values));
    return {};
  }

  collectives::Fabric& fabric_;
  const RoundSetting& setting_;
  const Layout& before_;
  const std::span<const NamedTensor> state_;
  compressors::TensorStore* const unsent_;
  std::vector<OwnersResidual> residuals_;
};

}  // namespace

Layout layout_of(const RoundSetting& setting, std::span<const std::uint32_t> bucket_of) {
  return {.world = setting.world,
          .encodes = setting.encodes,
          .owners = setting.owners,
          .regions = setting.regions,
          .hops = setting.hops,
          .bucket_of = {bucket_of.begin(), bucket_of.end()}};
}

NamedTensor saved(const Layout& layout) {
  const std::int64_t owned = layout.regions ? own_regions : layout.hops ? own_by_hops : own_shares;
  std::vector<std::int64_t> numbers{layout.world, layout.encodes, layout.owners, owned};
  numbers.insert(numbers.end(), layout.bucket_of.begin(), layout.bucket_of.end());
  return {std::string(layout_name), at::tensor(numbers, at::kLong)};
}

Result<std::optional<Layout>> layout_in(std::span<const NamedTensor> state) {
  const auto found = std::ranges::find(state, layout_name, &NamedTensor::name);
  if (found == state.end()) return std::optional<Layout>();
  const at::Tensor tensor = found->tensor.contiguous();
  const Error malformed{Errc::malformed, "the layout in the state of the exchange is none"};
  if (tensor.scalar_type() != at::kLong || tensor.dim() != 1 || tensor.numel() < layout_numbers) return malformed;
  const std::span numbers(tensor.data_ptr<std::int64_t>(), static_cast<std::size_t>(tensor.numel()));
  if (std::ranges::any_of(numbers, [](std::int64_t number) { return !std::in_range<std::uint32_t>(number); })) {
    return malformed;
  }
  Layout layout{.world = static_cast<std::uint32_t>(numbers[0]),
                .encodes = numbers[1] != 0,
                .owners = static_cast<std::uint32_t>(numbers[2]),
                .regions = numbers[3] == own_regions,
                .hops = numbers[3] == own_by_hops};
  for (const auto number : numbers.subspan(layout_numbers))
    layout.bucket_of.push_back(static_cast<std::uint32_t>(number));
  if (layout.world == 0 || numbers[3] > own_by_hops) return malformed;
  return std::optional(std::move(layout));
}

Result<void> hand_over(collectives::Fabric& fabric, const RoundSetting& setting, const Layout& before,
                       std::span<const NamedTensor> state) {
  return HandOver(fabric, setting, before, state).run();
}

}  // namespace weir::training
