#pragma once

#include "compressors/quantizers/quantizer.hpp"

namespace weir::compressors {

/// Eight bits with a sign and a scale per channel, which is a row of the first of two or more dimensions: the nearest
/// multiple of scale = max|x| / 127. The code is
///
///     f32[]  scale of each channel
///     i8[]   per entry: a multiple of the scale, -127 to 127
///
/// Biased. An entry errs by at most scale / 2, and by no more than itself, so that most is lost where all entries but
/// one are just below that: 1 - 1 / (1 + (n - 1) / 254^2) of |x|^2, for a tensor that is one channel. Where the scale
/// is a denormal number it is rounded up, so that more is lost, but never more than everything.
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
  Result<void> read_add(BytesView code, const Extent& extent, float weight, std::span<float> sum) override;
};

}  // namespace weir::compressors
