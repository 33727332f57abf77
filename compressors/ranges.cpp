#include "compressors/ranges.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>

namespace weir::compressors {

void for_ranges(std::size_t entries, std::size_t align, const std::function<void(std::size_t, std::size_t)>& body) {
  constexpr std::size_t grain = 1 << 16;  // entries: some tens of microseconds
  const std::size_t unit = (grain + align - 1) / align * align;
  const auto units = static_cast<std::int64_t>((entries + unit - 1) / unit);
  at::parallel_for(0, units, 1, [&](std::int64_t first, std::int64_t last) {
    body(static_cast<std::size_t>(first) * unit, std::min(entries, static_cast<std::size_t>(last) * unit));
  });
}

void for_each_part(std::size_t count, const std::function<void(std::size_t)>& body) {
  at::parallel_for(0, static_cast<std::int64_t>(count), 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) body(static_cast<std::size_t>(i));
  });
}

}  // namespace weir::compressors
