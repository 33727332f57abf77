#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "protocol/job_spec.hpp"

namespace weir::training {

/// Limits gradients in place: first each entry to the largest magnitude, then all tensors together to the largest norm
/// (Pascanu, Mikolov, Bengio 2013). Undefined tensors count as zero. A norm that is not finite limits nothing. The same
/// gradients become the same bits on every machine. Where norms stay on the device (norm.hpp), nothing waits for it.
void clip(const protocol::JobSpec::Clip& limits, std::span<const at::Tensor> gradients);

}  // namespace weir::training
