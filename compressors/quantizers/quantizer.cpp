#include "compressors/quantizers/quantizer.hpp"

#include <string>

#include "base/errc.hpp"
#include "compressors/codecs/varint.hpp"
#include "compressors/flat.hpp"
#include "compressors/non_finite.hpp"
#include "compressors/parallel_loops.hpp"

namespace weir::compressors {
namespace {

Extent extent_of(at::IntArrayRef shape) {
  return {entries_of(shape), shape.size() > 1 ? static_cast<std::uint64_t>(shape[0]) : std::uint64_t{1}};
}

}  // namespace

std::optional<WireBits> Quantizer::expected_bits(at::IntArrayRef shape, const Round&) const {
  const Extent extent = extent_of(shape);
  if (extent.entries == 0) return std::nullopt;
  return WireBits{.gathered = 8 * static_cast<double>(code_bytes(extent)) / static_cast<double>(extent.entries)};
}

Result<void> Quantizer::do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) {
  const Extent extent = extent_of(gradient.sizes());
  const std::size_t bytes = extent.entries == 0 ? 0 : code_bytes(extent);
  PayloadWriter payload(out, format(), varint_bytes(extent.entries) + bytes);
  store_varint(payload.body().data(), extent.entries);
  if (extent.entries > 0 && !write(flat(gradient), extent, round, payload.body().last(bytes))) {
    return non_finite(round, flat(gradient));
  }
  payload.seal(parallel_for_pieces);
  return {};
}

Result<void> Quantizer::do_decode_add(BytesView payload, const Round&, float weight, at::Tensor& sum) {
  const auto opened = open_payload(payload, format(), parallel_for_pieces);
  if (!opened) return opened.error();
  BytesView code = *opened;
  const Extent extent = extent_of(sum.sizes());
  const auto entries = read_varint(code);
  if (!entries) return Error(Errc::malformed, "a payload's head is cut off");
  if (*entries != extent.entries) {
    return Error(Errc::malformed, "a payload for " + std::to_string(*entries) + " entries came for a tensor of " +
                                      std::to_string(extent.entries));
  }
  const std::size_t due = extent.entries == 0 ? 0 : code_bytes(extent);
  if (code.size() != due) {
    return Error(Errc::malformed, std::string(name()) + ": a code of " + std::to_string(code.size()) +
                                      " bytes came where " + std::to_string(due) + " are due");
  }
  return extent.entries == 0 ? Result<void>() : read_add(code, extent, weight, flat(sum));
}

}  // namespace weir::compressors
