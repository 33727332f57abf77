#include "compressors/quantizers/natural.hpp"

#include <algorithm>
#include <array>
#include <atomic>

#include "base/errc.hpp"
#include "compressors/device/codes.hpp"
#include "compressors/kernels/prefetch.hpp"
#include "compressors/kernels/quantization/quantize.hpp"
#include "compressors/kernels/random/random.hpp"
#include "compressors/kernels/selection/selection.hpp"
#include "compressors/parallel_loops.hpp"
#include "compressors/round_key.hpp"

namespace weir::compressors {
namespace {

constexpr std::size_t block = 256;  // entries; small, so that prefetching one block ahead spreads the traffic evenly

/// Writes the codes of all values. Returns false if a value does not fit the window.
bool write_codes(std::span<const float> values, const RandomKey& key, int window, std::span<std::byte> codes) {
  std::atomic<bool> fits = true;
  parallel_for_ranges(values.size(), block, [&](std::size_t begin, std::size_t end) {
    std::array<std::uint32_t, block> buffer;
    for (std::size_t start = begin; start < end && fits; start += block) {
      const std::size_t size = std::min(block, end - start);
      const auto words = std::span(buffer).first(size);
      prefetch_next(values, start, size);
      prefetch_next(codes, start, size);
      fill_random(key, start, words);
      if (!write_natural(values.subspan(start, size), words, window, codes.subspan(start, size))) fits = false;
    }
  });
  return fits;
}

}  // namespace

bool Natural::write(std::span<const float> values, const Extent&, const Round& round, std::span<std::byte> code) {
  // The largest magnitude is known only after reading all values. A window for the first entries, with some room above
  // them, is nearly always enough; if not, the codes are written again.
  constexpr std::size_t sample = 4096;
  constexpr int room = 24;
  const RandomKey key = key_of_rank(round);
  const std::uint32_t first = extremes_of(values.first(std::min(sample, values.size()))).magnitude;
  if (first >= magnitude_infinite) return false;
  int window = std::min(natural_window(first) + (values.size() > sample ? room : 0), natural_window_max);
  if (!write_codes(values, key, window, code.subspan(1))) {
    const std::uint32_t largest = extremes_of(values).magnitude;
    if (largest >= magnitude_infinite) return false;
    window = natural_window(largest);
    write_codes(values, key, window, code.subspan(1));
  }
  code[0] = static_cast<std::byte>(window);
  return true;
}

Result<void> Natural::begin_on_device(std::span<const device::ToCode> tensors, std::span<const Round>) {
  return device::begin_natural(tensors);
}

Result<void> Natural::check(BytesView code, const Extent&) const {
  if (std::to_integer<int>(code[0]) <= natural_window_max) return {};
  return Error(Errc::malformed, "powers of two beyond those of a float");
}

void Natural::read_add(BytesView code, const Extent&, float weight, std::size_t begin, std::size_t end,
                       std::span<float> sum) const {
  const int window = std::to_integer<int>(code[0]);
  const BytesView codes = code.subspan(1);
  for (std::size_t start = begin; start < end; start += block) {
    const std::size_t size = std::min(block, end - start);
    prefetch_next(sum, start, size);
    add_natural(codes.subspan(start, size), window, weight, sum.subspan(start, size));
  }
}

Result<void> Natural::read_add_on_device(std::span<const device::ToAdd> codes) const {
  return device::add_natural(codes);
}

}  // namespace weir::compressors
