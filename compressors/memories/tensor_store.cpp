#include "compressors/memories/tensor_store.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/errc.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/arithmetic.hpp"

namespace weir::compressors {
namespace {

/// The tensor's position in "<store>.<position>".
std::optional<std::uint32_t> position_in(std::string_view name, std::string_view store) {
  if (!name.starts_with(store) || name.size() < store.size() + 2 || name[store.size()] != '.') return std::nullopt;
  name.remove_prefix(store.size() + 1);
  std::uint32_t position = 0;
  const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), position);
  if (failure != std::errc{} || end != name.data() + name.size()) return std::nullopt;
  return position;
}

/// Appends what of(i) finds for each number below `count` to `out`, which it clears first.
template <class Of>
Result<void> collect(std::size_t count, const Of& of, std::vector<at::Tensor>& out) {
  out.clear();
  for (std::size_t i = 0; i < count; ++i) {
    auto tensor = of(i);
    if (!tensor) return tensor.error();
    out.push_back(std::move(*tensor));
  }
  return {};
}

}  // namespace

Result<at::Tensor> TensorStore::of(const Round& round, at::IntArrayRef shape) {
  return checked(tensors_.of(round), round, shape, at::kCPU);
}

Result<at::Tensor> TensorStore::of(const Round& round, const at::Tensor& like) {
  at::Tensor& tensor = tensors_.of(round);
  if (tensor.defined() && tensor.device() != like.device()) tensor = tensor.to(like.device());
  return checked(tensor, round, like.sizes(), like.device());
}

Result<void> TensorStore::all_of(std::span<const Round> rounds, std::span<const at::Tensor> shapes,
                                 std::vector<at::Tensor>& out) {
  return collect(
      rounds.size(), [&](std::size_t i) { return of(rounds[i], shapes[i].sizes()); }, out);
}

Result<void> TensorStore::all_beside(std::span<const Round> rounds, std::span<const at::Tensor> like,
                                     std::vector<at::Tensor>& out) {
  return collect(
      rounds.size(), [&](std::size_t i) { return of(rounds[i], like[i]); }, out);
}

Result<at::Tensor> TensorStore::checked(at::Tensor& tensor, const Round& round, at::IntArrayRef shape,
                                        at::Device device) const {
  if (!tensor.defined()) tensor = at::zeros(shape, at::TensorOptions(at::kFloat).device(device));
  if (tensor.sizes() != shape) {
    return Error(Errc::invalid_argument, name_ + " of tensor " + std::to_string(round.tensor) + " has " +
                                             std::to_string(tensor.numel()) + " entries in another shape than its " +
                                             "gradient, which has " + std::to_string(entries_of(shape)));
  }
  return tensor;
}

std::optional<at::Tensor> TensorStore::find(const Round& round) const {
  const at::Tensor* tensor = tensors_.find(round);
  return tensor == nullptr ? std::nullopt : std::optional(*tensor);
}

bool TensorStore::add(const Round& round, std::uint64_t first, std::span<const float> values) const {
  auto tensor = find(round);
  if (!tensor) return false;
  const auto size = static_cast<std::uint64_t>(tensor->numel());
  if (first > size || values.size() > size - first) return false;
  if (tensor->is_cpu()) {
    accumulate_residual(1, 1, values, flat(*tensor).subspan(first, values.size()));
    return true;
  }
  const auto count = static_cast<std::int64_t>(values.size());
  at::Tensor above = at::empty({count}, at::kFloat);
  std::ranges::copy(values, flat(above).begin());
  tensor->view({-1}).narrow(0, static_cast<std::int64_t>(first), count).add_(above.to(tensor->device()));
  return true;
}

void TensorStore::clear(const Round& round) {
  if (at::Tensor* tensor = tensors_.find(round)) tensor->zero_();
}

void TensorStore::save(std::vector<NamedTensor>& to) const {
  for (const auto& [position, tensor] : tensors_.all()) to.push_back({name_ + "." + std::to_string(position), tensor});
}

bool TensorStore::owns(std::string_view name) const { return position_in(name, name_).has_value(); }

Result<void> TensorStore::restore(const NamedTensor& from) {
  const auto position = position_in(from.name, name_);
  if (!position) return Error(Errc::malformed, "'" + from.name + "' is not a part of " + name_);
  if (!from.tensor.defined() || from.tensor.scalar_type() != at::kFloat) {
    return Error(Errc::malformed, "saved state '" + from.name + "' is not float32");
  }
  tensors_.of({.tensor = *position}) = from.tensor.detach().clone(at::MemoryFormat::Contiguous);
  return {};
}

Result<void> restore_stores(std::span<const NamedTensor> state, std::initializer_list<TensorStore*> stores) {
  const auto clear = [&] {
    for (TensorStore* store : stores) store->clear();
  };
  clear();
  for (const NamedTensor& tensor : state) {
    const auto owner = std::ranges::find_if(stores, [&](TensorStore* store) { return store->owns(tensor.name); });
    const Result<void> restored = owner != stores.end()
                                      ? (*owner)->restore(tensor)
                                      : Error(Errc::malformed, "saved state '" + tensor.name + "' is not known here");
    if (restored) continue;
    clear();
    return restored.error();
  }
  return {};
}

}  // namespace weir::compressors
