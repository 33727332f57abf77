#include "compressors/kernels/selection/floor.hpp"

#include <algorithm>
#include <array>

#include "base/processor.hpp"
#include "compressors/kernels/selection/selection.hpp"

namespace weir::compressors {
namespace {

/// Group j consists of the values j, j + groups, j + 2 * groups, ...
template <std::size_t groups>
[[gnu::always_inline]] inline void largest_body(const float* __restrict x, std::size_t n,
                                                std::uint32_t* __restrict largest) {
  std::size_t i = 0;
  for (; i + groups <= n; i += groups) {
    for (std::size_t j = 0; j < groups; ++j) largest[j] = std::max(largest[j], magnitude(x[i + j]));
  }
  for (std::size_t j = 0; i < n; ++i, ++j) largest[j] = std::max(largest[j], magnitude(x[i]));
}

#if defined(__x86_64__)
template <std::size_t groups>
WEIR_AVX2 void largest_avx2(const float* x, std::size_t n, std::uint32_t* largest) {
  largest_body<groups>(x, n, largest);
}
#endif

template <std::size_t groups>
void find_largest(std::span<const float> values, std::uint32_t* largest) {
#if defined(__x86_64__)
  if (has_avx2()) return largest_avx2<groups>(values.data(), values.size(), largest);
#endif
  largest_body<groups>(values.data(), values.size(), largest);
}

/// The `count`-th largest of the maxima of so many groups. At most half of the groups, each of four values at least:
/// else more than a few of the largest values would share a group, or the maxima would be as many as the values.
template <std::size_t groups>
std::uint32_t floor_by(std::span<const float> values, std::size_t count) {
  if (2 * count > groups || values.size() < 4 * groups) return 0;
  std::array<std::uint32_t, groups> largest{};
  find_largest<groups>(values, largest.data());
  std::ranges::nth_element(largest, largest.begin() + static_cast<std::ptrdiff_t>(count - 1), std::greater<>());
  return largest[count - 1];
}

}  // namespace

std::uint32_t floor_of_largest(std::span<const float> values, std::size_t count) {
  constexpr std::size_t few = 128;
  constexpr std::size_t many = 2048;  // 8 KiB, which stay in the first cache
  if (count == 0) return 0;
  return 2 * count <= few ? floor_by<few>(values, count) : floor_by<many>(values, count);
}

}  // namespace weir::compressors
