#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>

namespace weir::compressors {

/// The entries of a contiguous float32 tensor in the processor's memory.
inline std::span<const float> flat(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}
inline std::span<float> flat(at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

}  // namespace weir::compressors
