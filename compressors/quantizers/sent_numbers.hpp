#pragma once

#include <c10/core/ScalarType.h>

#include <optional>

#include "compressors/compressor.hpp"

namespace weir::compressors {

/// The type of the numbers that a compressor sends, if it does nothing else than to send each entry, divided by the
/// number of ranks, as such a number of 16 bits that is summed: bf16 and fp16.
std::optional<at::ScalarType> sent_numbers(const Compressor& compressor);

}  // namespace weir::compressors
