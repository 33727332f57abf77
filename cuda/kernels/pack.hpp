#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"
#include "cuda/stream.hpp"

namespace weir::cuda {

// Twin of compressors/kernels/pack.hpp: the low `bits` (1 to 8) bits of each code without gaps, least significant bit
// first; unused bits of the last byte are zero. Packed bytes may lie at any address.

/// The number of bytes that `n` fields occupy.
constexpr std::uint64_t packed_bytes(std::uint64_t n, unsigned bits) { return (n * bits + 7) / 8; }

/// Twin of pack(). Per code: 1 byte read, bits / 8 written.
Result<void> pack(const std::byte* codes, std::uint64_t n, unsigned bits, std::byte* out, StreamHandle stream);

}  // namespace weir::cuda
