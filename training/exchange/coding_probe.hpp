#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "base/result.hpp"
#include "compressors/catalog.hpp"
#include "training/exchange/planner.hpp"

namespace weir::training {

/// Measures what a compressor and its memory take for each parameter, and how long its payloads are, with random
/// gradients in the shapes of the parameters; of large ones with the first rows. They lie where the parameters do, if
/// that is a device on which these are coded, and in the host's memory otherwise. `compression` must not be the one
/// that is trained with: its state changes. `round`: for its epoch, rank, world and seed. Fails with what compressors
/// and memories fail with.
Result<std::vector<BucketLoad>> measure_coding(compressors::Compression& compression,
                                               std::span<const compressors::NamedTensor> parameters,
                                               const compressors::Round& round);

/// What a tensor asks for in this round. `encoded`: what it takes to encode it.
BucketLoad load_of(const compressors::Compressor& compressor, at::IntArrayRef shape, const compressors::Round& round,
                   const CodedLoad& encoded);

/// Measures how long it takes to put floats into a bucket and to take them out again, in seconds per byte.
double measure_copy();

}  // namespace weir::training
