#include "compressors/codecs/counts.hpp"

#include <algorithm>
#include <string>

#include "base/errc.hpp"
#include "compressors/codecs/payload.hpp"
#include "compressors/codecs/varint.hpp"

namespace weir::compressors {

void write_counts(std::span<const std::uint64_t> counts, Bytes& out) {
  std::size_t bytes = 0;
  for (const std::uint64_t count : counts) bytes += varint_bytes(std::min(count, varint_max));
  PayloadWriter payload(out, Format::counts, bytes);
  std::byte* at = payload.body().data();
  for (const std::uint64_t count : counts) at = store_varint(at, std::min(count, varint_max));
  payload.seal();
}

Result<void> read_counts(BytesView payload, std::span<std::uint64_t> counts) {
  const auto opened = open_payload(payload, Format::counts);
  if (!opened) return opened.error();
  BytesView body = *opened;
  for (std::uint64_t& count : counts) {
    const auto read = read_varint(body);
    if (!read) return Error(Errc::malformed, "one of " + std::to_string(counts.size()) + " counts is missing");
    count = *read;
  }
  if (!body.empty()) return Error(Errc::malformed, "more than " + std::to_string(counts.size()) + " counts");
  return {};
}

}  // namespace weir::compressors
