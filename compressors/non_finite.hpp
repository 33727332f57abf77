#pragma once

#include <span>

#include "base/result.hpp"
#include "compressors/compressor.hpp"
#include "compressors/values.hpp"

namespace weir::compressors {

/// Whether no entry of a contiguous float32 tensor is NaN or infinite, wherever it lies; for one on a device it waits.
/// Fails with: internal (on a device).
Result<bool> all_finite(const at::Tensor& tensor);

/// The error for a gradient with NaN or infinity; it names the first such entry. Who has encoded it names the tensor.
Error non_finite(const Round& round, std::span<const float> values);

/// The same, of a contiguous float32 tensor, wherever it lies.
Error non_finite(const Round& round, const at::Tensor& gradient);

/// The same, of the first such entry that was found wherever the gradient lies; or why none was.
Error non_finite(const Round& round, const Result<NonFinite>& found);

}  // namespace weir::compressors
