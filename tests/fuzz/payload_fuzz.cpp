#include <ATen/ATen.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "base/ensure.hpp"
#include "compressors/catalog.hpp"
#include "compressors/codecs/payload.hpp"

namespace {

using weir::Bytes;
using weir::BytesView;
using weir::compressors::Compressor;
using weir::compressors::Format;
using weir::compressors::PayloadWriter;

std::vector<std::unique_ptr<Compressor>> every_compressor() {
  std::vector<std::unique_ptr<Compressor>> all;
  for (const auto& entry : weir::compressors::builtin().compressors()) {
    all.push_back(std::move(entry.make(nullptr).value()));
  }
  return all;
}

/// The body under a good header and checksum, which a search would hardly find by itself.
Bytes sealed(Format format, BytesView body) {
  Bytes out;
  PayloadWriter writer(out, format, body.size());
  std::ranges::copy(body, writer.body().begin());
  writer.seal();
  return out;
}

/// Decodes into the middle of a larger buffer, whose other floats must stay as they are.
void decode(Compressor& compressor, BytesView payload, std::size_t entries) {
  constexpr std::size_t guard = 64;
  std::vector<float> buffer(entries + 2 * guard);
  at::Tensor sum = at::from_blob(buffer.data() + guard, {static_cast<std::int64_t>(entries)}, at::kFloat);
  (void)compressor.decode_add(payload, {}, 1, sum);
  const auto untouched = [](float x) { return x == 0; };
  weir::ensure(std::all_of(buffer.begin(), buffer.begin() + guard, untouched), "wrote before the tensor");
  weir::ensure(std::all_of(buffer.end() - guard, buffer.end(), untouched), "wrote behind the tensor");
  std::vector<std::uint32_t> positions;
  if (!compressor.support(payload, {}, entries, positions)) return;
  for (const std::uint32_t position : positions) weir::ensure(position < entries, "a position outside of the tensor");
}

}  // namespace

/// Two bytes give the size of the tensor; the rest goes to every compressor's decoder, as it is and as the body of a
/// payload of each format.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<std::unique_ptr<Compressor>> compressors = every_compressor();
  if (size < 2) return 0;
  const std::size_t entries = (data[0] | data[1] << 8) % 4096;
  const BytesView bytes = std::as_bytes(std::span(data, size)).subspan(2);
  BytesView stream = bytes;
  while (const auto payload = weir::compressors::take_payload(stream)) weir::ensure(!payload->empty(), "no progress");
  const Bytes body = sealed(Format::sparse, bytes);
  for (const auto& compressor : compressors) {
    decode(*compressor, bytes, entries);
    decode(*compressor, body, entries);
  }
  return 0;
}
