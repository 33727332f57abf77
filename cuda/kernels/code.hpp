#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/kernels/random.hpp"
#include "cuda/kernels/report.hpp"

namespace weir::cuda {

// What kernels are to know of a tensor that they code or decode, one of several.

/// A tensor whose code is written, which draws at random.
struct CodeToWrite {
  const float* values = nullptr;
  std::uint64_t n = 0;
  RandomKey key;
  std::byte* code = nullptr;
  Report* report = nullptr;
};

/// A code that is added: sum += weight * decoded `code`.
struct CodeToAdd {
  const std::byte* code = nullptr;
  std::uint64_t n = 0;
  float weight = 1;
  float* sum = nullptr;
};

}  // namespace weir::cuda
