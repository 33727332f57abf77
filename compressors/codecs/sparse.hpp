#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "compressors/codecs/index_codec.hpp"
#include "compressors/codecs/payload.hpp"
#include "compressors/codecs/value_codec.hpp"
#include "compressors/kernels/selection/selection.hpp"

namespace weir::compressors {

// Payloads that carry some entries of a tensor. Their body (Format::sparse):
//
//     varint  entries of the tensor
//     varint  count of entries sent
//     u8      index codec (low half), value codec (high half)
//     ...     positions, as the index codec writes them; their length is what the rest leaves
//     ...     values, as the value codec writes them
//
// Format::survivors has the same body, with positions counted among the entries that the seed has chosen. Format::dct
// has it too, with positions of cosine coefficients.

/// The range that positions refer to, and the size of the tensor.
struct SparseExtent {
  Format format = Format::sparse;
  std::uint32_t entries = 0;    ///< of the tensor
  std::uint32_t positions = 0;  ///< one past the largest possible position: the number of entries, or of survivors
};

/// Appends the payload of `selection` to `out`. Positions and values are written as two parts, possibly on two threads.
void write_sparse(const Selection& selection, const SparseExtent& extent, const IndexCodec& index,
                  const ValueCodec& value, Bytes& out, const PartLoop& for_each_part = one_by_one);

/// Reads a payload of that extent; otherwise like read_sparse() below.
Result<void> read_sparse(BytesView payload, const SparseExtent& extent, Selection& selection);

/// Appends the payload of `selection`, out of a tensor of `entries` entries, to `out`.
void write_sparse(const Selection& selection, std::uint32_t entries, const IndexCodec& index, const ValueCodec& value,
                  Bytes& out);

/// How entries are written: part of a compressor's parameters.
struct SparseCodecs {
  std::string index = "auto";  ///< one of index_codec_names() (codecs/index_codec.hpp)
  std::string value = "fp32";  ///< one of value_codec_names() (codecs/value_codec.hpp)
};

/// Appends the payload of `selection`, out of a part of a tensor that has `entries` entries, to `out`, and replaces the
/// values by those that the payload is decoded to.
void write_part(Selection& selection, std::uint32_t entries, const SparseCodecs& codecs, Bytes& out,
                const PartLoop& for_each_part = one_by_one);

/// Reads a payload for a tensor of `entries` entries into `selection`. The bytes are untrusted: it never allocates more
/// than `entries` and the payload's size justify, and what it returns is finite and lies within the tensor. Fails with:
/// malformed, unsupported (a version, format or codec of another build).
Result<void> read_sparse(BytesView payload, std::uint64_t entries, Selection& selection);

}  // namespace weir::compressors
