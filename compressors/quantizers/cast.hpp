#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string>

#include "base/errc.hpp"
#include "base/half.hpp"
#include "compressors/compressor.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/prefetch.hpp"
#include "compressors/non_finite.hpp"

namespace weir::compressors {

// What fp16 and bf16 have in common: a payload that is a bare array of 16-bit floats. Block by block, so that the
// second look at a block finds it in the cache.

inline constexpr std::size_t cast_block = 4096;  // entries

/// Appends `gradient` rounded to Number.
template <class Number>
Result<void> encode_cast(const at::Tensor& gradient, const Round& round, Bytes& out) {
  const std::span<const float> values = flat(gradient);
  out.reserve(out.size() + values.size() * sizeof(Number));
  std::array<Number, cast_block> block;
  for (std::size_t start = 0; start < values.size(); start += cast_block) {
    const auto part = values.subspan(start, std::min(cast_block, values.size() - start));
    const auto rounded = std::span(block).first(part.size());
    prefetch_next(values, start, cast_block);
    if (!round_to(part, rounded)) return non_finite(round, values);
    append(out, std::as_bytes(rounded));
  }
  return {};
}

/// sum += weight * what `payload` stands for. Fails with: malformed (of another length, or not finite).
template <class Number>
Result<void> decode_cast(BytesView payload, float weight, at::Tensor& sum) {
  const std::span<float> target = flat(sum);
  if (payload.size() != target.size() * sizeof(Number)) {
    return Error(Errc::malformed, "a payload of " + std::to_string(payload.size()) + " bytes came for a tensor of " +
                                      std::to_string(target.size()) + " entries of 16 bits");
  }
  std::array<Number, cast_block> block;  // the payload may lie at an odd address
  for (std::size_t start = 0; start < target.size(); start += cast_block) {
    const auto part = target.subspan(start, std::min(cast_block, target.size() - start));
    const auto numbers = std::span(block).first(part.size());
    prefetch_next(target, start, cast_block);
    std::memcpy(numbers.data(), payload.data() + start * sizeof(Number), numbers.size_bytes());
    if (!add_scaled(weight, std::span<const Number>(numbers), part)) {
      return Error(Errc::malformed, "a 16-bit payload has a number that is not finite");
    }
  }
  return {};
}

}  // namespace weir::compressors
