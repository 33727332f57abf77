#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/ensure.hpp"
#include "protocol/safetensors.hpp"

/// Any bytes are either refused or read as tensors that lie within the file, which are written and read again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto file = weir::protocol::read_safetensors(weir::Segment::own(weir::Bytes(bytes.begin(), bytes.end())));
  if (!file) return 0;
  std::size_t covered = 0;
  for (const auto& tensor : file->tensors) {
    covered += tensor.bytes.size();
    for (const auto extent : tensor.shape) weir::ensure(extent <= INT64_MAX, "an extent that LibTorch cannot have");
  }
  weir::ensure(covered <= size, "tensors reach beyond the file");

  auto written = weir::protocol::write_safetensors(file->metadata, file->tensors);
  weir::ensure(written.has_value(), "what was read can be written");
  const auto again = weir::protocol::read_safetensors(weir::Segment::own(std::move(*written)));
  weir::ensure(again && again->metadata == file->metadata && again->tensors.size() == file->tensors.size(),
               "what was written is read");
  for (const auto& tensor : file->tensors) {
    const auto* same = again->find(tensor.name);
    weir::ensure(same != nullptr && same->dtype == tensor.dtype && same->shape == tensor.shape &&
                     std::ranges::equal(same->bytes, tensor.bytes),
                 "a tensor comes back as it went");
  }
  return 0;
}
