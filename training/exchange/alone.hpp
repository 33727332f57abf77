#pragma once

#include <ATen/core/Tensor.h>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "compressors/compressor.hpp"

namespace weir::training {

/// Appends the payload of `tensor` that its compressor's last pass gathers, going through all passes as if this rank
/// were the only one. `scratch`: for what the earlier ones encode. `own`: as of Compressor::encode().
Result<void> encode_alone(compressors::Compressor& compressor, const at::Tensor& tensor, compressors::Round round,
                          Bytes& out, compressors::Selection* own, Bytes& scratch);

}  // namespace weir::training
