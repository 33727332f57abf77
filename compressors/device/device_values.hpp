#pragma once

#include <ATen/core/Tensor.h>

#include "compressors/transforms/dct.hpp"
#include "compressors/values.hpp"
#include "cuda/kernels/bins.hpp"

namespace weir::compressors::device {

/// Of a contiguous float32 tensor on a device, in the calling thread's current stream (device.hpp), for which it waits
/// to read what was found: what is chosen crosses to the host, and nothing else.
class DeviceValues final : public Values {
 public:
  /// `bins`: how many entries have each upper part, in the device's memory; null if nobody has counted them.
  DeviceValues(const at::Tensor& tensor, const cuda::Bins* bins) : tensor_(tensor), bins_(bins) {}

  std::size_t size() const override { return static_cast<std::size_t>(tensor_.numel()); }
  Result<std::uint32_t> sampled_cut(const StridedSample& sample, std::size_t rank) const override;
  Result<void> sample_magnitudes(const SampledRuns& runs, std::vector<float>& out) const override;
  Result<bool> collect(std::uint32_t least, std::size_t limit, Selection& out) const override;
  Result<void> select_largest(std::size_t count, Selection& out) const override;
  Result<void> select_of_blocks(std::size_t block, std::size_t of_block, Selection& out) const override;
  Result<NonFinite> first_non_finite() const override;
  Result<MagnitudeSums> magnitude_sums(std::uint32_t below) const override;
  Result<void> draw(const RandomKey& key, float level, Selection& out) const override;

  /// The same of the coefficients of each block of a grid: at least one, and no more than it has.
  Result<void> select_of_blocks(const BlockGrid& grid, std::size_t of_block, Selection& out) const;

 private:
  /// select_largest() in one pass after the bins: entries that have the upper part of their magnitudes in common with
  /// the last one, or a higher one, are copied aside, and the largest of these are selected. False, and `out` means
  /// nothing, if that are too many.
  Result<bool> select_among_candidates(std::size_t count, Selection& out) const;
  /// The same whatever the values are, in up to three passes.
  Result<void> select_among_all(std::size_t count, Selection& out) const;

  const at::Tensor& tensor_;
  const cuda::Bins* bins_;
};

}  // namespace weir::compressors::device
