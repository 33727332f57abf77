#include "compressors/kernels/quantization/levels.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "base/ensure.hpp"
#include "compressors/kernels/selection/selection.hpp"

namespace weir::compressors {
namespace {

std::uint8_t sign_of(float x, unsigned bits) {
  return static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(x) >> 31 << (bits - 1));
}

float middle_of(const Ends& ends) { return 0.5F * ends.low + 0.5F * ends.high; }

}  // namespace

Ends ends_of(std::span<const float> values) {
  std::uint32_t least = magnitude_infinite;
  std::uint32_t largest = 0;
  for (const float value : values) {
    least = std::min(least, magnitude(value));
    largest = std::max(largest, magnitude(value));
  }
  return {std::bit_cast<float>(least), std::bit_cast<float>(largest)};
}

void to_levels(std::span<const float> values, const Ends& ends, unsigned bits, std::span<std::uint8_t> codes) {
  ensure(codes.size() == values.size(), "a code for each value");
  const auto top = static_cast<float>((1U << (bits - 1)) - 1);
  const float width = ends.high - ends.low;
  // If the ends are so close that their distance has no inverse, all values get the low level.
  const float steps = width > top * 0x1p-126F ? top / width : 0.0F;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float place = (std::bit_cast<float>(magnitude(values[i])) - ends.low) * steps + 0.5F;
    const auto level = static_cast<std::int32_t>(std::clamp(place, 0.0F, top));
    codes[i] = static_cast<std::uint8_t>(static_cast<std::uint8_t>(level) | sign_of(values[i], bits));
  }
}

void from_levels(std::span<const std::uint8_t> codes, const Ends& ends, unsigned bits, std::span<float> values) {
  ensure(codes.size() == values.size(), "a code for each value");
  const std::uint32_t levels = 1U << (bits - 1);
  const float step = (ends.high - ends.low) / static_cast<float>(levels - 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto level = static_cast<float>(static_cast<std::int32_t>(codes[i] & (levels - 1)));
    const float size = ends.low + level * step;
    const std::uint32_t sign = std::uint32_t{codes[i]} >> (bits - 1) << 31;
    values[i] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(size) ^ sign);
  }
}

Ends means_of_halves(std::span<const float> values, const Ends& ends) {
  const float middle = middle_of(ends);
  std::array<double, 2> sums{};
  std::array<std::size_t, 2> counts{};
  for (const float value : values) {
    const float size = std::bit_cast<float>(magnitude(value));
    const std::size_t half = size > middle;
    sums[half] += size;
    ++counts[half];
  }
  const double low = sums[0] / static_cast<double>(std::max<std::size_t>(counts[0], 1));
  const double high = counts[1] > 0 ? sums[1] / static_cast<double>(counts[1]) : low;
  return {static_cast<float>(low), static_cast<float>(high)};
}

void to_halves(std::span<const float> values, const Ends& ends, std::span<std::uint8_t> codes) {
  ensure(codes.size() == values.size(), "a code for each value");
  const float middle = middle_of(ends);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool above = std::bit_cast<float>(magnitude(values[i])) > middle;
    codes[i] = static_cast<std::uint8_t>(static_cast<std::uint8_t>(above) | sign_of(values[i], 2));
  }
}

}  // namespace weir::compressors
