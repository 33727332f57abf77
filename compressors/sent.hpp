#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "compressors/compressor.hpp"
#include "compressors/kernels/selection/selection.hpp"

namespace weir::compressors {

/// Some rows of a tensor (of its first dimension) that were encoded on their own.
struct SentRows {
  BytesView payload;
  Round round;
  std::int64_t first = 0;
  std::int64_t count = 0;  ///< 0: all
};

/// What this rank sent for a tensor in the last pass of a round: of a sparse compressor the entries, which were there
/// when it encoded them and need not be read from the payload again. Refers to them, to the payload or to the tensor.
class Sent {
 public:
  explicit Sent(const Selection& entries) : entries_(&entries) {}
  /// The same, and what others made of it: `corrections` are values that count as sent, too, so that what all ranks
  /// have sent adds up to the mean, but they make no positions those of entries sent.
  Sent(const Selection& entries, const Selection& corrections) : entries_(&entries), corrections_(&corrections) {}
  /// Of a compressor that sends every entry.
  Sent(Compressor& compressor, BytesView payload, const Round& round)
      : compressor_(&compressor), payload_(payload), round_(&round) {}

  /// All of what a memory has compensated, as it was.
  explicit Sent(const at::Tensor& compensated) : compensated_(&compensated) {}

  /// Of a compressor that sends every entry, in several payloads that have all rows between them.
  Sent(Compressor& compressor, std::span<const SentRows> parts) : compressor_(&compressor), parts_(parts) {}

  /// tensor += weight * what was sent. The tensor may lie on a device where the compressor codes; one with all of what
  /// a memory has compensated lies beside it. Fails with: malformed, unsupported, internal (what a device answers).
  Result<void> add_to(at::Tensor& tensor, float weight) const;

  /// The same of what was sent of several tensors, which lie beside each other, on a device in as few launches as for
  /// one.
  static Result<void> add_all_to(std::span<at::Tensor> tensors, std::span<const Sent> sent, float weight);

  /// Of a sparse compressor.
  std::span<const std::uint32_t> positions() const { return entries_->positions; }
  /// All entries, those at positions() first; none if it is not of a sparse compressor.
  std::vector<const Selection*> selections() const {
    if (entries_ == nullptr) return {};
    if (corrections_ == nullptr) return {entries_};
    return {entries_, corrections_};
  }

 private:
  const Selection* entries_ = nullptr;
  const Selection* corrections_ = nullptr;
  const at::Tensor* compensated_ = nullptr;
  Compressor* compressor_ = nullptr;
  BytesView payload_;
  const Round* round_ = nullptr;
  std::span<const SentRows> parts_;
};

}  // namespace weir::compressors
