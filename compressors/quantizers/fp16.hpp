#pragma once

#include "compressors/compressor.hpp"

namespace weir::compressors {

/// Sends every entry, divided by the number of ranks as PyTorch's fp16_compress_hook does, as an IEEE half, rounded to
/// nearest even: u16[], no header, so that an all-reduce can sum it in place. What goes over the wire is a mean in the
/// making, which does not leave the range of its terms. Of what is sent, magnitudes above 65504 become 65504, those up
/// to 2^-25 zero, so that only 1 bounds the error for all tensors; between 2^-14 and 65504 a number's own error is at
/// most 2^-11 of it. The sum is rounded at every rank it passes.
class Fp16 final : public Compressor {
 public:
  static constexpr std::string_view type_name = "fp16";
  static constexpr std::string_view summary = "Half precision, summed by all-reduce: half the bytes.";
  static constexpr std::string_view default_memory = "none";

  std::string_view name() const override { return type_name; }
  Traits traits() const override { return {.passes = {Reduction::sum_fp16}}; }
  double error_bound(std::uint64_t, const Round&) const override { return 1; }

 protected:
  Result<void> do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) override;
  Result<void> do_decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum) override;
};

}  // namespace weir::compressors
