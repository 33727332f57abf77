#pragma once

#include "compressors/compressor.hpp"

namespace weir::compressors {

/// Sends every entry as it is: float32[], no header, so that an all-reduce can sum it in place.
class None final : public Compressor {
 public:
  static constexpr std::string_view type_name = "none";
  static constexpr std::string_view summary = "No compression: the gradient as it is, summed by all-reduce.";
  static constexpr std::string_view default_memory = "none";

  std::string_view name() const override { return type_name; }
  Traits traits() const override;
  double error_bound(std::uint64_t, const Round&) const override { return 0; }

 protected:
  Result<void> do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) override;
  Result<void> do_decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum) override;
};

}  // namespace weir::compressors
