#pragma once

#include <memory>

#include "compressors/quantizers/quantizer.hpp"
#include "protocol/params.hpp"

namespace weir::compressors {

/// QSGD (Alistarh et al., NeurIPS 2017): in each bucket of d entries with the norm |b|, an entry becomes sign * |b| * l
/// / s with s = 2^bits - 1. The level l is y = |x| / |b| * s, rounded up with a probability equal to its fractional
/// part, otherwise down, so that the expectation is the entry. The code is
///
///     u8      bits
///     u32     d, the entries of a bucket
///     per bucket, the last of which may be shorter:
///       f32     |b|, at most the largest float
///       bit[]   l of every entry in `bits` bits, padded to whole bytes with zeros (kernels/pack.hpp)
///       bit[]   per entry: 1 if it is below zero; padded likewise
///
/// The variance is at most min(d / (4 s^2), sqrt(d) / s) |x|^2, because rounding y with the fractional part f has the
/// variance f (1 - f), which is at most 1/4 and at most y.
class Qsgd final : public Quantizer {
 public:
  static constexpr std::string_view type_name = "qsgd";
  static constexpr std::string_view summary = "Levels up to the norm of a bucket, rounded at random without bias.";
  static constexpr std::string_view default_memory = "none";

  struct Options {
    std::int64_t bits = 4;
    std::int64_t bucket = 512;
  };
  static protocol::Params<Options> params();
  explicit Qsgd(Options options)
      : bits_(static_cast<unsigned>(options.bits)), bucket_(static_cast<std::size_t>(options.bucket)) {}

  std::string_view name() const override { return type_name; }
  Traits traits() const override { return {.biased = false}; }
  double error_bound(std::uint64_t entries, const Round& round) const override;

 protected:
  Format format() const override { return Format::qsgd; }
  std::size_t code_bytes(const Extent& extent) const override;
  bool write(std::span<const float> values, const Extent& extent, const Round& round,
             std::span<std::byte> code) override;
  Result<void> begin_on_device(std::span<const device::ToCode> tensors, std::span<const Round> rounds) override;
  std::size_t head_bytes() const override;
  void write_head(const Extent& extent, const SignSums& sums, std::span<std::byte> head) const override;
  std::size_t unit() const override { return bucket_; }
  Result<void> check(BytesView code, const Extent& extent) const override;
  void read_add(BytesView code, const Extent& extent, float weight, std::size_t begin, std::size_t end,
                std::span<float> sum) const override;
  Result<void> read_add_on_device(std::span<const device::ToAdd> codes) const override;

 private:
  unsigned most() const { return (1U << bits_) - 1; }
  std::size_t bucket_bytes(std::size_t entries) const;

  unsigned bits_;
  std::size_t bucket_;
};

}  // namespace weir::compressors
