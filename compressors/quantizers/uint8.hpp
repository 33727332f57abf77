#pragma once

#include "compressors/quantizers/quantizer.hpp"

namespace weir::compressors {

/// Eight-bit codes for the interval from the least to the largest entry of a channel: each entry becomes the nearest
/// multiple of a scale, counted from the code that stands for zero. A channel is a row along the first dimension; a
/// tensor of one dimension is one channel. The interval is widened to include zero, and zero is one of the 256 values,
/// since many entries of gradients are near it. The code is
///
///     f32[]  scale of each channel
///     u8[]   code of zero of each channel
///     u8[]   per entry: code of zero + x / scale, rounded
///
/// The scale is 1/255 of the interval, or up to a hundredth more so that zero is exact. A channel of one sign has all
/// 255 steps for it, twice as many as with int8. Biased; in the worst case scale, error and bound are those of int8.
class Uint8 final : public Quantizer {
 public:
  static constexpr std::string_view type_name = "uint8";
  static constexpr std::string_view summary =
      "Eight bits from the least to the largest entry of a channel, to nearest.";
  static constexpr std::string_view default_memory = "none";

  std::string_view name() const override { return type_name; }
  Traits traits() const override { return {}; }
  double error_bound(std::uint64_t entries, const Round& round) const override;

 protected:
  Format format() const override { return Format::uint8; }
  std::size_t code_bytes(const Extent& extent) const override;
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
