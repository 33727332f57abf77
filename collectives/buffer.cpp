#include "collectives/buffer.hpp"

#include <algorithm>

namespace weir::collectives {

Buffer chunk_of(const Buffer& values, std::uint32_t ranks, std::uint32_t rank) {
  const std::size_t count = values.count();
  const auto begin_of = [&](std::uint32_t chunk) {
    return (count / ranks * chunk + std::min<std::size_t>(chunk, count % ranks)) * bytes_of(values.element);
  };
  return {values.bytes.subspan(begin_of(rank), begin_of(rank + 1) - begin_of(rank)), values.element, values.device};
}

}  // namespace weir::collectives
