#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace weir::compressors {

// What ranks tell each other about payloads, as a payload of its own: how many entries there are. The body
// (Format::counts) is these numbers as varints, one after the other; both sides know how many.

/// Appends the payload of `counts` to `out`. A number above varint_max (codecs/varint.hpp) is written as that.
void write_counts(std::span<const std::uint64_t> counts, Bytes& out);

/// Fills `counts` from a payload, whose bytes are untrusted. Fails with: malformed (also: it has more or fewer),
/// unsupported (another version or format).
Result<void> read_counts(BytesView payload, std::span<std::uint64_t> counts);

}  // namespace weir::compressors
