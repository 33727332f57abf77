#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <cstring>

#include "base/philox.hpp"

namespace weir::compressors::test {

/// Tensors with the same entries on every machine; LibTorch's own random numbers differ between versions.
inline at::Tensor uniform(std::int64_t entries, std::uint64_t seed) {
  at::Tensor tensor = at::empty({entries}, at::kFloat);
  const Philox philox(seed);
  for (std::int64_t i = 0; i < entries; ++i) {
    const std::uint32_t word = philox.at(0, 0, static_cast<std::uint32_t>(i))[0];
    tensor.data_ptr<float>()[i] = (static_cast<float>(word >> 8) + 0.5F) / 16777216.0F;
  }
  return tensor;
}

inline at::Tensor gaussian(std::int64_t entries, std::uint64_t seed) {
  const at::Tensor radius = at::sqrt(-2 * at::log(uniform(entries, seed)));
  return radius * at::cos(6.28318530718F * uniform(entries, ~seed));
}

/// Nine in ten entries are zero.
inline at::Tensor sparse(std::int64_t entries, std::uint64_t seed) {
  return gaussian(entries, seed) * (uniform(entries, seed + 77) < 0.1F);
}

/// Cubed Gaussian numbers: few entries hold nearly all of the norm.
inline at::Tensor heavy_tailed(std::int64_t entries, std::uint64_t seed) {
  const at::Tensor x = gaussian(entries, seed);
  return x * x * x;
}

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         std::memcmp(a.contiguous().data_ptr(), b.contiguous().data_ptr(), a.nbytes()) == 0;
}

}  // namespace weir::compressors::test
