#include "training/tensor_file.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "base/errc.hpp"
#include "protocol/training_shape.hpp"
#include "training/device.hpp"

namespace weir::training {
namespace {

using protocol::Dtype;
using protocol::StoredTensor;

constexpr std::array<std::pair<at::ScalarType, Dtype>, 10> types{{{at::kFloat, Dtype::f32},
                                                                  {at::kDouble, Dtype::f64},
                                                                  {at::kHalf, Dtype::f16},
                                                                  {at::kBFloat16, Dtype::bf16},
                                                                  {at::kLong, Dtype::i64},
                                                                  {at::kInt, Dtype::i32},
                                                                  {at::kShort, Dtype::i16},
                                                                  {at::kByte, Dtype::u8},
                                                                  {at::kChar, Dtype::i8},
                                                                  {at::kBool, Dtype::boolean}}};

std::optional<Dtype> stored_type(at::ScalarType type) {
  const auto found = std::ranges::find(types, type, [](const auto& pair) { return pair.first; });
  return found == types.end() ? std::nullopt : std::optional(found->second);
}

std::optional<at::ScalarType> tensor_type(Dtype type) {
  const auto found = std::ranges::find(types, type, [](const auto& pair) { return pair.second; });
  return found == types.end() ? std::nullopt : std::optional(found->first);
}

std::vector<std::int64_t> sizes_of(const StoredTensor& stored) { return {stored.shape.begin(), stored.shape.end()}; }

bool fits(const StoredTensor& stored, const at::Tensor& tensor) {
  return tensor_type(stored.dtype) == tensor.scalar_type() && tensor.sizes() == at::IntArrayRef(sizes_of(stored));
}

/// Of a type that LibTorch has.
at::Tensor tensor_of(const StoredTensor& stored) {
  auto tensor = at::empty(sizes_of(stored), *tensor_type(stored.dtype));
  if (!stored.bytes.empty()) std::memcpy(tensor.data_ptr(), stored.bytes.data(), stored.bytes.size());
  return tensor;
}

}  // namespace

bool can_be_stored(const at::Tensor& tensor) { return stored_type(tensor.scalar_type()).has_value(); }

void TensorFile::add(const std::string& prefix, const std::vector<NamedTensor>& tensors) {
  for (const auto& [name, tensor] : tensors) tensors_.push_back({prefix + name, on_host(tensor.detach()).contiguous()});
}

Result<Bytes> TensorFile::write(const std::map<std::string, std::string>& metadata) const {
  std::vector<StoredTensor> stored;
  for (const auto& [name, tensor] : tensors_) {
    const auto type = stored_type(tensor.scalar_type());
    if (!type) return Error{Errc::unsupported, "tensor '" + name + "' has a type that safetensors does not know"};
    const std::span bytes(static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes());
    stored.push_back({name, *type, {tensor.sizes().begin(), tensor.sizes().end()}, bytes});
  }
  return protocol::write_safetensors(metadata, stored);
}

std::vector<NamedTensor> tensors_under(const protocol::Safetensors& file, std::string_view prefix) {
  std::vector<NamedTensor> tensors;
  for (const auto& stored : file.tensors) {
    if (!stored.name.starts_with(prefix) || !tensor_type(stored.dtype)) continue;
    tensors.push_back({stored.name.substr(prefix.size()), tensor_of(stored)});
  }
  return tensors;
}

Result<void> load_into(const protocol::Safetensors& file, std::string_view prefix,
                       const std::vector<NamedTensor>& targets) {
  std::vector<const StoredTensor*> sources;
  for (const auto& [name, tensor] : targets) {
    const auto* stored = file.find(std::string(prefix) + name);
    if (stored == nullptr) return Error{Errc::conflict, "the checkpoint is of another model: it has no '" + name + "'"};
    if (!fits(*stored, tensor)) {
      return Error{Errc::conflict, "the checkpoint is of another model, or of another data set: its '" + name +
                                       "' is " + protocol::extents_text(sizes_of(*stored)) + ", and this model's is " +
                                       protocol::extents_text(tensor.sizes())};
    }
    sources.push_back(stored);
  }
  const auto under = std::ranges::count_if(file.tensors, [&](const auto& t) { return t.name.starts_with(prefix); });
  if (static_cast<std::size_t>(under) != targets.size()) {
    return Error{Errc::conflict, "the checkpoint is of another model: it has tensors that this one does not have"};
  }
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < targets.size(); ++i) at::Tensor(targets[i].tensor).copy_(tensor_of(*sources[i]));
  return {};
}

}  // namespace weir::training
