#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace weir::compressors {

/// How many entries a tensor of this shape has.
inline std::uint64_t entries_of(at::IntArrayRef shape) {
  std::uint64_t entries = 1;
  for (const auto size : shape) entries *= static_cast<std::uint64_t>(size);
  return entries;
}

/// The entries of a contiguous float32 tensor on the CPU.
inline std::span<const float> flat(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}
inline std::span<float> flat(at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

}  // namespace weir::compressors
