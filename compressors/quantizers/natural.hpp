#pragma once

#include "compressors/quantizers/quantizer.hpp"

namespace weir::compressors {

/// Natural compression (Horvath et al. 2019): every entry is rounded at random to one of the two neighbouring powers of
/// two, so that the expectation is the entry; the variance is at most x^2 / 8. The code is
///
///     u8      window: the number c stands for the power 2^(c + window - 150); at most 151
///     u8[]    per entry: the sign in the highest bit, c in the others; c = 0 stands for zero
///
/// The window covers 127 powers, counted down from the tensor's largest exponent or from a power up to 2^24 times
/// larger. A smaller value becomes the smallest of these powers or zero, without bias down to 2^-23 of that power;
/// below, it becomes zero. Above 2^127, where float32 has no larger power, the upper neighbour is the largest float
/// instead of 2^128.
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
  Result<void> begin_on_device(std::span<const device::ToCode> tensors, std::span<const Round> rounds) override;
  std::size_t unit() const override { return 1; }
  Result<void> check(BytesView code, const Extent& extent) const override;
  void read_add(BytesView code, const Extent& extent, float weight, std::size_t begin, std::size_t end,
                std::span<float> sum) const override;
  Result<void> read_add_on_device(std::span<const device::ToAdd> codes) const override;
};

}  // namespace weir::compressors
