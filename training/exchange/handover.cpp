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

/// Makes `values` those of rank 0 on all ranks.
Result<void> copy_from_first(collectives::Fabric& fabric, at::Tensor& values) {
  if (fabric.rank() != 0) values.zero_();
  return add_up(fabric, flat(values));
}

class HandOver {
 public:
  HandOver(collectives::Fabric& fabric, const RoundSetting& setting, const Layout& before,
           std::span<const NamedTensor> state)
      : fabric_(fabric),
        setting_(setting),
        before_(before),
        state_(state),
        compressor_(*setting.compression.compressor),
        memory_(*setting.compression.memory),
        unsent_(memory_.unsent()) {}

  Result<void> run() {
    if (auto read = read_residuals(); !read) return read;
    const bool others = before_.world != setting_.world || before_.encodes != setting_.encodes;
    const bool bound = (!compressor_.traits().begins_anew && !compressor_.save().empty()) ||
                       (unsent_ == nullptr && !memory_.save().empty());
    const bool left_out = !residuals_.empty();
    std::array flags{others ? 1.0F : 0.0F, bound ? 1.0F : 0.0F, left_out ? 1.0F : 0.0F};
    if (auto agreed = agree_on_largest(fabric_, flags); !agreed) return agreed;
    if (flags[0] == 0) return keep_residuals();
    if (flags[1] > 0) return of_others();
    if (auto forgotten = compressor_.restore({}); !forgotten) return forgotten;
    if (unsent_ != nullptr) return divide_anew();
    return flags[2] > 0 ? no_place() : Result<void>();
  }

 private:
  struct OwnersResidual {
    std::uint32_t parameter = 0;
    Owner::Residual residual;
  };

  Result<void> read_residuals() {
    for (std::uint32_t p = 0; p < setting_.parameters.size(); ++p) {
      const auto& [name, tensor] = setting_.parameters[p];
      auto found = Owner::residual_in(state_, name, tensor.numel());
      if (!found) return found.error();
      if (*found && is_not_zero((*found)->values)) residuals_.push_back({p, std::move(**found)});
    }
    return {};
  }

  /// A residual of zeros, as owners have before the first coded round, must not count as one: that a memory has nothing
  /// unsent of a tensor can mean that the tensor has only gone dense so far (Memory::momenta).
  static bool is_not_zero(const at::Tensor& values) {
    return std::ranges::any_of(flat(values), [](float value) { return value != 0; });
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
    std::array refused{0.0F};
    for (const OwnersResidual& one : residuals_) {
      if (!add(one, static_cast<float>(setting_.world))) refused[0] = 1;
    }
    if (auto agreed = agree_on_largest(fabric_, refused); !agreed) return agreed;
    return refused[0] > 0 ? no_place() : Result<void>();
  }

  /// Other ranks encode.
  Result<void> divide_anew() {
    std::vector<float> known(setting_.parameters.size());
    for (std::uint32_t p = 0; p < known.size(); ++p) known[p] = unsent_->find(round(p)) ? 1 : 0;
    for (const OwnersResidual& one : residuals_) known[one.parameter] = 1;
    if (auto agreed = agree_on_largest(fabric_, known); !agreed) return agreed;
    compressors::TensorStore* const momenta = memory_.momenta();
    for (std::uint32_t p = 0; p < known.size(); ++p) {
      if (known[p] == 0) continue;
      const auto own = std::ranges::find(residuals_, p, &OwnersResidual::parameter);
      const OwnersResidual* const left_out = own == residuals_.end() ? nullptr : &*own;
      if (auto divided = divide(*unsent_, p, left_out); !divided) return divided;
      if (momenta == nullptr) continue;
      if (auto divided = divide(*momenta, p, nullptr); !divided) return divided;
    }
    if (auto copied = copy_rates(known); !copied) return copied;
    return momenta == nullptr ? Result<void>() : copy_momenta(*momenta, known);
  }

  /// What all ranks keep of a parameter in `store` is their part in the mean times the number of them. `left_out`: what
  /// this rank has left out as an owner and adds to its part, null for nothing.
  Result<void> divide(compressors::TensorStore& store, std::uint32_t parameter, const OwnersResidual* left_out) {
    auto tensor = store.of(round(parameter), setting_.parameters[parameter].tensor.sizes());
    if (!tensor) return tensor.error();
    tensor->mul_(before_.encodes ? 1.0 / before_.world : 0.0);
    if (left_out != nullptr) add(*left_out, 1);
    if (setting_.by_hosts) {
      if (auto summed = sum_within_hosts(fabric_, flat(*tensor)); !summed) return summed;
    }
    tensor->mul_(setting_.encodes ? static_cast<double>(setting_.world) : 0.0);
    if (!setting_.encodes) tensor->zero_();  // whatever the sum has left there
    return {};
  }

  /// Gives all ranks the learning rates of what is not sent yet of the tensors that are `known` to have something:
  /// those of the ranks that have encoded. Others may have older ones, from when they did.
  Result<void> copy_rates(std::span<const float> known) {
    compressors::TensorStore* const rates = memory_.unsent_rates();
    if (rates == nullptr) return {};
    const std::array<std::int64_t, 1> one_number = {1};
    std::vector<float> last(known.size());
    for (std::uint32_t p = 0; before_.encodes && p < known.size(); ++p) {
      if (known[p] == 0 || !rates->find(round(p))) continue;
      const auto rate = rates->of(round(p), at::IntArrayRef(one_number));
      if (!rate) return rate.error();
      last[p] = flat(*rate)[0];
    }
    if (auto agreed = agree_on_largest(fabric_, last); !agreed) return agreed;
    for (std::uint32_t p = 0; p < known.size(); ++p) {
      if (known[p] == 0) continue;
      auto rate = rates->of(round(p), at::IntArrayRef(one_number));
      if (!rate) return rate.error();
      flat(*rate)[0] = last[p];
    }
    return {};
  }

  /// Gives all ranks the momenta of the tensors that are not `known` to have anything unsent: they are the same on all
  /// ranks that have encoded. Rank 0 is always one of them, because it leads its host.
  Result<void> copy_momenta(compressors::TensorStore& momenta, std::span<const float> known) {
    std::vector<float> copied(known.size());
    for (std::uint32_t p = 0; p < known.size(); ++p) {
      copied[p] = known[p] == 0 && fabric_.rank() == 0 && momenta.find(round(p)) ? 1 : 0;
    }
    if (auto agreed = agree_on_largest(fabric_, copied); !agreed) return agreed;
    for (std::uint32_t p = 0; p < copied.size(); ++p) {
      if (copied[p] == 0) continue;
      auto momentum = momenta.of(round(p), setting_.parameters[p].tensor.sizes());
      if (!momentum) return momentum.error();
      if (auto done = copy_from_first(fabric_, *momentum); !done) return done;
    }
    return {};
  }

  compressors::Round round(std::uint32_t parameter) const { return setting_.round({}, parameter); }

  /// Returns false if the memory has no place for it.
  bool add(const OwnersResidual& one, float factor) {
    const at::Tensor values = one.residual.values.mul(factor);
    return memory_.add_unsent(round(one.parameter), one.residual.first_entry, flat(values));
  }

  collectives::Fabric& fabric_;
  const RoundSetting& setting_;
  const Layout& before_;
  const std::span<const NamedTensor> state_;
  compressors::Compressor& compressor_;
  compressors::Memory& memory_;
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
