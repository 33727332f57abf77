#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ensure.hpp"
#include "protocol/safetensors.hpp"

/// Any bytes are either refused or read as tensors that lie within the file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto file = weir::protocol::read_safetensors(weir::Segment::own(weir::Bytes(bytes.begin(), bytes.end())));
  if (!file) return 0;
  std::size_t covered = 0;
  for (const auto& tensor : file->tensors) covered += tensor.bytes.size();
  weir::ensure(covered <= size, "tensors reach beyond the file");
  return 0;
}
