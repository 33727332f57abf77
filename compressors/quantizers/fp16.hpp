#pragma once

#include "compressors/compressor.hpp"
#include "compressors/device/device.hpp"

namespace weir::compressors {

/// Sends every entry, divided by the number of ranks as in PyTorch's fp16_compress_hook, as an IEEE half, rounded to
/// nearest, ties to even: u16[], no header, so that an all-reduce can sum it in place. The partial sums on the wire are
/// parts of a mean, so they stay within the range of the entries. Magnitudes above 65504 become 65504 and those up to
/// 2^-25 zero, so that no bound below 1 holds for all tensors; between 2^-14 and 65504 the error of a number is at most
/// 2^-11 of it. The sum is rounded at every rank it passes.
class Fp16 final : public Compressor {
 public:
  static constexpr std::string_view type_name = "fp16";
  static constexpr std::string_view summary = "Half precision, summed by all-reduce: half the bytes.";
  static constexpr std::string_view default_memory = "none";

  std::string_view name() const override { return type_name; }
  Traits traits() const override { return {.passes = {Reduction::sum_fp16}}; }
  bool codes_on(at::Device device) const override { return device.is_cpu() || device::has_kernels(device); }
  bool decodes_on(at::Device device) const override { return codes_on(device); }
  std::optional<at::ScalarType> sent_numbers() const override { return at::kHalf; }
  double error_bound(std::uint64_t, const Round&) const override { return 1; }

 protected:
  Result<void> do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) override;
  Result<void> do_decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum) override;
};

}  // namespace weir::compressors
