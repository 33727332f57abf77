#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "base/result.hpp"

namespace weir::training {

/// Seeds LibTorch's generators, which are the process's: what a training draws from them (dropout) is a function of the
/// seed, and another one on each rank.
void seed_random_state(std::uint64_t seed, std::uint32_t rank);
/// The state of LibTorch's generator for the processor or for a GPU, as bytes.
at::Tensor random_state(at::Device device);
/// Restores a state from random_state(). Fails with: malformed.
Result<void> set_random_state(at::Device device, const at::Tensor& state);

}  // namespace weir::training
