#include "compressors/transforms/rounded.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/errc.hpp"
#include "compressors/kernels/linear_algebra/low_rank.hpp"
#include "compressors/kernels/pack.hpp"
#include "compressors/kernels/selection/selection.hpp"

namespace weir::compressors {
namespace {

std::size_t buckets_of(std::size_t count) { return (count + rounded_bucket - 1) / rounded_bucket; }

unsigned levels_of(unsigned bits) { return (1U << (bits - 1)) - 1; }

std::uint8_t code_of(float value, double levels_per_unit, unsigned levels, std::uint32_t word) {
  const double exact = static_cast<double>(value) * levels_per_unit + static_cast<double>(levels);
  const double below = std::floor(exact);
  const bool up = static_cast<double>(word) < (exact - below) * 0x1p32;
  return static_cast<std::uint8_t>(std::clamp(below + (up ? 1 : 0), 0.0, 2.0 * levels));
}

}  // namespace

std::size_t rounded_bytes(std::size_t count, unsigned bits) {
  if (bits == 0) return count * sizeof(float);
  return buckets_of(count) * sizeof(float) + packed_bytes(count, bits);
}

std::uint64_t rounded_words(std::size_t count, unsigned bits) {
  return bits == 0 ? 0 : std::uint64_t{buckets_of(count)} * rounded_bucket;
}

void write_rounded(std::span<const float> values, unsigned bits, const RandomKey& key, std::uint64_t first_word,
                   std::span<std::byte> out) {
  if (values.empty()) return;
  if (bits == 0) {
    std::memcpy(out.data(), values.data(), values.size_bytes());
    return;
  }
  const unsigned levels = levels_of(bits);
  thread_local std::vector<std::uint8_t> codes;  // kept between calls to reuse its memory
  codes.resize(values.size());
  std::array<std::uint32_t, rounded_bucket> words;
  for (std::size_t bucket = 0; bucket < buckets_of(values.size()); ++bucket) {
    const std::size_t begin = bucket * rounded_bucket;
    const auto part = values.subspan(begin, std::min(rounded_bucket, values.size() - begin));
    const auto scale = std::bit_cast<float>(largest_magnitude(part));
    std::memcpy(out.data() + bucket * sizeof scale, &scale, sizeof scale);
    fill_random(key, first_word + begin, words);
    const double per_unit = scale > 0 ? levels / static_cast<double>(scale) : 0;
    for (std::size_t i = 0; i < part.size(); ++i) codes[begin + i] = code_of(part[i], per_unit, levels, words[i]);
  }
  pack(codes, bits, out.subspan(buckets_of(values.size()) * sizeof(float)));
}

Result<void> read_rounded(BytesView in, unsigned bits, std::span<float> values) {
  if (bits == 0) {
    if (!values.empty()) std::memcpy(values.data(), in.data(), values.size_bytes());
    if (largest_magnitude(values) < magnitude_infinite) return {};
    return Error(Errc::malformed, "a payload holds a value that is not a number");
  }
  const std::size_t scales = buckets_of(values.size()) * sizeof(float);
  const unsigned levels = levels_of(bits);
  if (!padding_is_zero(in.subspan(scales), values.size(), bits)) {
    return Error(Errc::malformed, "a payload's last code has bits behind it");
  }
  thread_local std::vector<std::uint8_t> codes;  // kept between calls to reuse its memory
  codes.resize(values.size());
  unpack(in.subspan(scales), bits, codes);
  std::array<float, 256> share{};
  for (unsigned code = 0; code <= 2 * levels; ++code) {
    share[code] = static_cast<float>(static_cast<int>(code) - static_cast<int>(levels)) / static_cast<float>(levels);
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    float scale;
    std::memcpy(&scale, in.data() + i / rounded_bucket * sizeof scale, sizeof scale);
    if (!std::isfinite(scale) || std::signbit(scale) || codes[i] > 2 * levels) {
      return Error(Errc::malformed, "a payload holds a scale or a level that nothing is rounded to");
    }
    values[i] = scale * share[codes[i]];
  }
  return {};
}

double rounding_variance(unsigned bits) {
  if (bits == 0) return 0;
  const double levels = levels_of(bits);
  const auto bucket = static_cast<double>(rounded_bucket);
  return std::min(bucket / (4 * levels * levels), std::sqrt(bucket) / levels);
}

}  // namespace weir::compressors
