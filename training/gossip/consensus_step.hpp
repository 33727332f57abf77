#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

#include "compressors/compressor.hpp"

namespace weir::training {

/// The share of the squared length of a tensor that one round of Choco with this compressor takes away from it: the
/// delta of a contraction, E|x - C(x)|^2 <= (1 - delta) |x|^2. What is known for every x (Compressor::error_bound), or
/// what is found with random numbers of a normal distribution in the tensor's shape, if that is more: of the first,
/// some compressors do not know much. A function of its arguments, after any warm-up; `compressor` takes part in no
/// training.
double contraction_of(compressors::Compressor& compressor, at::IntArrayRef shape, std::uint64_t seed);

/// The gamma of Choco that a tensor gets if the job does not say one. An entry that comes only now and then, once in 1
/// / delta rounds of random-k, must not be pulled along too far until it is corrected: that holds where gamma times the
/// largest eigenvalue of I - W, which is less than 2, is below delta. Never nothing: a compressor that sends none of
/// the random numbers sends differences once they are larger.
inline double consensus_step_for(double contraction) { return std::max(contraction / 2, 0.001); }

}  // namespace weir::training
