#pragma once

#include <algorithm>
#include <string>

#include "compressors/begun.hpp"
#include "compressors/per_tensor.hpp"
#include "compressors/quantizers/quantizer.hpp"
#include "protocol/params.hpp"

namespace weir::compressors {

/// TernGrad (Wen et al., NeurIPS 2017): every entry becomes -S, 0 or S. With v = min(|x|, c), it is nonzero with
/// probability v / S, so that the expectation is the clipped entry. The clipping limit c is clip * sigma, where sigma
/// is the root mean square: the deviation from zero instead of from the mean, which is close to zero in gradients
/// anyway, so that a constant tensor is not lost. S is the largest v of this rank ("local") or of all ranks ("shared").
/// The latter takes a first pass, whose result is the maximum over the ranks:
///
///     first pass    f32   largest v of this rank, no header
///     last pass     f32   S
///                   u8[]  64 bytes per block of 320 entries, where byte j holds the entries j + 64 k; for the last r
///                         entries ceil(r / 5) bytes, which is also their stride (kernels/quantization/quantize.hpp)
///
/// Unbiased without clipping. The error with a local scale is at most S |x|_1 - |x|^2 <= (sqrt(n) - 1) / 2 |x|^2
/// without clipping; with it, S <= clip |x| / sqrt(n) gives (1 + clip^2 / 8) |x|^2, or (clip - 1) |x|^2 above clip = 4.
/// With a shared scale no bound holds, because the scale can come from another rank.
class TernGrad final : public Quantizer {
 public:
  static constexpr std::string_view type_name = "terngrad";
  static constexpr std::string_view summary = "Each entry -1, 0 or 1 times a scale, drawn at random: 1.6 bits.";
  static constexpr std::string_view default_memory = "none";

  struct Options {
    double clip = 2.5;
    std::string scale = "shared";
  };
  static protocol::Params<Options> params();
  explicit TernGrad(const Options& options) : clip_(options.clip), shared_(options.scale == "shared") {}

  std::string_view name() const override { return type_name; }
  Traits traits() const override;
  double error_bound(std::uint64_t entries, const Round& round) const override;
  Result<void> absorb(std::span<const BytesView> results, const Round& round) override;

 protected:
  /// The sizes that scales are made of or, once all ranks' are known, the codes.
  Result<void> do_begin(std::span<const at::Tensor> gradients, std::span<const Round> rounds) override;
  Result<void> do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) override;
  Format format() const override { return Format::ternary; }
  std::size_t code_bytes(const Extent& extent) const override;
  bool write(std::span<const float> values, const Extent& extent, const Round& round,
             std::span<std::byte> code) override;
  Result<void> begin_on_device(std::span<const device::ToCode> tensors, std::span<const Round> rounds) override;
  std::size_t unit() const override;
  Result<void> check(BytesView code, const Extent& extent) const override;
  void read_add(BytesView code, const Extent& extent, float weight, std::size_t begin, std::size_t end,
                std::span<float> sum) const override;
  Result<void> read_add_on_device(std::span<const device::ToAdd> codes) const override;

 private:
  /// Of one tensor within a round.
  struct Scales {
    float own = 0;      ///< the largest magnitude after clipping
    float shared = -1;  ///< of all ranks; below zero: not known yet, or not asked for

    float of_digit() const { return std::max(own, shared); }
  };

  Result<void> begin_sizes(std::span<const at::Tensor> gradients, std::span<const Round> rounds);
  Result<Size> size_from_device(const at::Tensor& gradient, const Round& round);
  /// Finds the own scale of a gradient.
  Result<void> note_limit(const at::Tensor& gradient, const Round& round);
  Result<void> encode_limit(const at::Tensor& gradient, const Round& round, Bytes& out);

  double clip_;
  bool shared_;
  PerTensor<Scales> scales_;
  Begun<Coming> sizes_;
};

}  // namespace weir::compressors
