#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "compressors/transforms/dct.hpp"
#include "compressors/values.hpp"
#include "cuda/kernels/bins.hpp"

namespace weir::compressors::device {

/// What a device has been asked for ahead of a function of DeviceValues, in the calling thread's current stream;
/// nothing by default. Of the tensors of a bucket it is asked for together: in as few launches as for one, and what is
/// found comes to the host in one copy. The tensors must not change until that function is called. Fails as
/// compressors/device.
class Selecting {
 public:
  /// As of the function of the same name.
  struct BySample {
    at::Tensor tensor;
    SampledRank ranked;
    std::size_t limit = 0;
  };
  static Result<std::vector<Selecting>> collect_by_sample(std::span<const BySample> tensors);

  /// As of the function of the same name. `bins`: as of DeviceValues.
  struct Largest {
    at::Tensor tensor;
    const cuda::Bins* bins = nullptr;
    std::size_t count = 0;
  };
  /// Nothing for a tensor of which so many are wanted that it takes several passes.
  static Result<std::vector<Selecting>> select_largest(std::span<const Largest> tensors);

  explicit operator bool() const { return work_ != nullptr; }

 private:
  friend class DeviceValues;
  struct Work;

  static Result<std::vector<Selecting>> select_in_one_pass(std::span<const Largest> tensors);

  std::shared_ptr<const Work> work_;  ///< of all tensors
  std::size_t index_ = 0;             ///< which one this is
};

/// Of a contiguous float32 tensor on a device, in the calling thread's current stream (device.hpp), for which it waits
/// to read what was found: what is chosen crosses to the host, and nothing else.
class DeviceValues final : public Values {
 public:
  /// `bins`: how many entries have each upper part, in the device's memory; null if nobody has counted them. `begun`:
  /// what the function of the same name will be called for, if it is, with the same arguments.
  DeviceValues(const at::Tensor& tensor, const cuda::Bins* bins, Selecting begun = {})
      : tensor_(tensor), bins_(bins), begun_(std::move(begun)) {}

  std::size_t size() const override { return static_cast<std::size_t>(tensor_.numel()); }
  Result<CollectedBySample> collect_by_sample(const SampledRank& ranked, std::size_t limit,
                                              Selection& out) const override;
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
  template <class Begin>
  Result<Selecting> selecting(bool by_sample, const Begin& begin) const;
  /// select_largest() whatever the values are, in up to three passes.
  Result<void> select_among_all(std::size_t count, Selection& out) const;

  const at::Tensor& tensor_;
  const cuda::Bins* bins_;
  const Selecting begun_;
};

}  // namespace weir::compressors::device
