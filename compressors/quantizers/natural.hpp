#pragma once

#include "compressors/quantizers/quantizer.hpp"

namespace weir::compressors {

/// Natural compression (Horvath et al. 2019): every entry becomes one of the two powers of two around it, so that the
/// expectation is the entry; the variance is at most x^2 / 8. The code is
///
///     u8      window: the power of the number c is 2^(c + window - 150); at most 151
///     u8[]    per entry: below zero in the upper bit, c in the others; c = 0 is zero
///
/// The window reaches 127 powers down from the tensor's largest exponent or from up to 2^24 above it. What is smaller
/// becomes the least of these powers or zero, still without bias down to 2^-23 of that power; below, it becomes zero.
/// Above 2^127, where float32 has no larger power, the upper neighbour is the largest float in the place of 2^128.
class Natural final : public Quantizer {
 public:
  static constexpr std::string_view type_name = "natural";
  static constexpr std::string_view summary = "Powers of two, rounded at random without bias: one byte per entry.";
  static constexpr std::string_view default_memory = "none";

  std::string_view name() const override { return type_name; }
  Traits traits() const override { return {.biased = false}; }
  double error_bound(std::uint64_t, const Round&) const override { return 0.125; }

 protected:
  Format format() const override { return Format::natural; }
  std::size_t code_bytes(const Extent& extent) const override { return 1 + extent.entries; }
  bool write(std::span<const float> values, const Extent& extent, const Round& round,
             std::span<std::byte> code) override;
  Result<void> read_add(BytesView code, const Extent& extent, float weight, std::span<float> sum) override;
};

}  // namespace weir::compressors
