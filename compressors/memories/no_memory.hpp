#pragma once

#include <optional>
#include <string>

#include "compressors/memory.hpp"

namespace weir::compressors {

/// Remembers nothing: what was not sent is lost. For lossless and unbiased compressors.
class NoMemory final : public Memory {
 public:
  static constexpr std::string_view type_name = "none";
  static constexpr std::string_view summary = "Remembers nothing: what is not sent is lost.";
  static constexpr MemoryTraits type_traits = {};
  static std::optional<std::string> misfit(const Compressor&) { return std::nullopt; }

  std::string_view name() const override { return type_name; }
  MemoryTraits traits() const override { return type_traits; }
  bool codes_on(at::Device) const override { return true; }
  Result<at::Tensor> compensate(const at::Tensor& gradient, const Round&) override { return gradient; }
  Result<void> update(const Round&, const Sent&, at::Tensor&) override { return {}; }
};

}  // namespace weir::compressors
