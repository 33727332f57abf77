#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ensure.hpp"
#include "training/datasets/idx.hpp"

/// Any bytes are either refused or read as an array that lies within them. The first byte chooses the dimensions.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::span<const std::uint8_t> left(data + 1, size - 1);
  const weir::training::ByteSource source = [&](std::span<std::uint8_t> out) -> weir::Result<std::size_t> {
    const auto count = std::min(out.size(), left.size());
    std::copy_n(left.begin(), count, out.begin());
    left = left.subspan(count);
    return count;
  };
  const auto idx = weir::training::read_idx(source, data[0] % 4);
  if (idx) weir::ensure(idx->elements.size() < size, "more elements than bytes");
  return 0;
}
