#pragma once

#include "compressors/compressor.hpp"
#include "compressors/device/device.hpp"

namespace weir::compressors {

/// Sends every entry, divided by the number of ranks, as a bfloat16, rounded to nearest, ties to even: u16[], no
/// header, so that an all-reduce can sum it in place; the sum is a mean. The exponent range is that of float32; a value
/// that would round to infinity becomes the largest finite number. From 2^-126 on, the error of a number is at most
/// 2^-8 of it; below, it may be the whole number: hence a bound of 1. The sum is rounded at every rank it passes.
class Bf16 final : public Compressor {
 public:
  static constexpr std::string_view type_name = "bf16";
  static constexpr std::string_view summary = "bfloat16, summed by all-reduce: half the bytes, all exponents.";
  static constexpr std::string_view default_memory = "none";

  std::string_view name() const override { return type_name; }
  Traits traits() const override { return {.passes = {Reduction::sum_bf16}}; }
  bool codes_on(at::Device device) const override { return device.is_cpu() || device::has_kernels(device); }
  bool decodes_on(at::Device device) const override { return codes_on(device); }
  std::optional<at::ScalarType> sent_numbers() const override { return at::kBFloat16; }
  double error_bound(std::uint64_t, const Round&) const override { return 1; }

 protected:
  Result<void> do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) override;
  Result<void> do_decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum) override;
};

}  // namespace weir::compressors
