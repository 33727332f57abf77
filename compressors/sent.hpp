#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "compressors/compressor.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/selection/selection.hpp"

namespace weir::compressors {

/// What this rank sent for a tensor in the last pass of a round: of a sparse compressor the entries, which were there
/// when it encoded them and need not be read from the payload again. Refers to them, or to the payload.
class Sent {
 public:
  explicit Sent(const Selection& entries) : entries_(&entries) {}
  /// Of a compressor that sends every entry.
  Sent(Compressor& compressor, BytesView payload, const Round& round)
      : compressor_(&compressor), payload_(payload), round_(&round) {}

  /// tensor += weight * what was sent. Fails with: malformed, unsupported.
  Result<void> add_to(at::Tensor& tensor, float weight) const {
    if (entries_ == nullptr) return compressor_->decode_add(payload_, *round_, weight, tensor);
    add_selection(weight, *entries_, flat(tensor));
    return {};
  }

  /// Of a sparse compressor.
  std::span<const std::uint32_t> positions() const { return entries_->positions; }

 private:
  const Selection* entries_ = nullptr;
  Compressor* compressor_ = nullptr;
  BytesView payload_;
  const Round* round_ = nullptr;
};

}  // namespace weir::compressors
