#pragma once

#include "compressors/quantizers/quantizer.hpp"

namespace weir::compressors {

/// Signed eight-bit codes with a scale per channel: each entry becomes the nearest multiple of scale = max|x| / 127. A
/// channel is a row along the first dimension; a tensor of one dimension is one channel. The code is
///
///     f32[]  scale of each channel
///     i8[]   per entry: x / scale, rounded, -127 to 127
///
/// Biased. The error of an entry is at most scale / 2 and at most the entry itself. In the worst case all entries but
/// one are just below scale / 2: the loss is then 1 - 1 / (1 + (n - 1) / 254^2) of |x|^2, for a tensor of one channel.
/// A denormal scale is rounded up, so that more is lost, but never more than everything.
class Int8 final : public Quantizer {
 public:
  static constexpr std::string_view type_name = "int8";
  static constexpr std::string_view summary = "Eight bits and a sign, rounded to nearest, with a scale per channel.";
  static constexpr std::string_view default_memory = "none";

  std::string_view name() const override { return type_name; }
  Traits traits() const override { return {}; }
  double error_bound(std::uint64_t entries, const Round& round) const override;

 protected:
  Format format() const override { return Format::int8; }
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
