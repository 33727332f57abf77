#pragma once

#include <cstdint>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "compressors/codecs/index_codec.hpp"
#include "compressors/codecs/value_codec.hpp"
#include "compressors/kernels/selection.hpp"

namespace weir::compressors {

// Payloads that carry some entries of a tensor. Their body (Format::sparse):
//
//     varint  entries of the tensor
//     varint  count of entries sent
//     u8      index codec (low half), value codec (high half)
//     ...     positions, as the index codec writes them; their length is what the rest leaves
//     ...     values, as the value codec writes them

/// Appends the payload of `selection`, out of a tensor of `entries` entries, to `out`.
void write_sparse(const Selection& selection, std::uint32_t entries, const IndexCodec& index, const ValueCodec& value,
                  Bytes& out);

/// Reads a payload for a tensor of `entries` entries; values only if `values_wanted`. The bytes are untrusted: never
/// allocates more than they and `entries` justify, and what it gives is finite and lies within the tensor.
/// Fails with: malformed, unsupported (a version, format or codec of another build).
Result<void> read_sparse(BytesView payload, std::uint64_t entries, bool values_wanted, Selection& selection);

}  // namespace weir::compressors
