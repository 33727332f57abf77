// Packed numbers from a peer. The first byte says how many numbers are expected; the rest is what arrived.

#include <cstdint>
#include <span>

#include "base/ensure.hpp"
#include "base/processor.hpp"
#include "collectives/packing.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const weir::BytesView packed = std::as_bytes(std::span(data + 1, size - 1));
  weir::Bytes numbers(std::size_t{4} * data[0]);
  weir::Bytes again(numbers.size());
  const bool whole = bool(weir::collectives::unpack(packed, numbers));
  const weir::KernelsUpTo portable(weir::Kernels::portable);
  weir::ensure(bool(weir::collectives::unpack(packed, again)) == whole, "all processors accept the same bytes");
  weir::ensure(!whole || numbers == again, "all processors read the same numbers");
  return 0;
}
