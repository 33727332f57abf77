#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace weir::compressors {

/// Asks for memory ahead of its use. A loop over a tensor that has more to do than to read it is faster for asking for
/// the next block before it turns to this one: the processor's own guesses end at every page.
template <class T>
void prefetch(std::span<T> values) {
  constexpr std::size_t line = 64;
  const auto bytes = std::as_bytes(values);
  for (std::size_t i = 0; i < bytes.size(); i += line) __builtin_prefetch(bytes.data() + i);
}

/// The block behind [start, start + size), as far as there is one, and no more than the first cache has room for.
template <class T>
void prefetch_next(std::span<T> values, std::size_t start, std::size_t size) {
  constexpr std::size_t most = 4096;
  if (values.size() - start <= size) return;
  const auto rest = values.subspan(start + size);
  prefetch(rest.first(std::min({rest.size(), size, most})));
}

}  // namespace weir::compressors
