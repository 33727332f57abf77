#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace weir::compressors {

/// Prefetches `values` into the cache. A loop that computes on a tensor block by block gains by prefetching the next
/// block before it works on this one, because the hardware prefetcher stops at every page boundary.
template <class T>
void prefetch(std::span<T> values) {
  constexpr std::size_t line = 64;
  const auto bytes = std::as_bytes(values);
  for (std::size_t i = 0; i < bytes.size(); i += line) __builtin_prefetch(bytes.data() + i);
}

/// Prefetches the block that follows [start, start + size), if there is one, up to 4,096 entries.
template <class T>
void prefetch_next(std::span<T> values, std::size_t start, std::size_t size) {
  constexpr std::size_t most = 4096;
  if (values.size() - start <= size) return;
  const auto rest = values.subspan(start + size);
  prefetch(rest.first(std::min({rest.size(), size, most})));
}

}  // namespace weir::compressors
