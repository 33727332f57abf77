#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "compressors/kernels/selection/sample.hpp"
#include "compressors/kernels/selection/selection.hpp"

namespace weir::compressors {

/// A value that is NaN or infinite, and where it is.
struct NonFinite {
  std::size_t at = 0;
  float value = 0;
};

/// The values of a tensor among which a sparsifier chooses, wherever they lie: in the host's memory or on a device.
/// What is found is in the host's memory and the same in both cases, bit for bit.
class Values {
 public:
  virtual ~Values() = default;

  virtual std::size_t size() const = 0;

  /// The magnitude() of the `rank`-th largest value of a sample, 1 <= rank <= count.
  virtual Result<std::uint32_t> sampled_cut(const StridedSample& sample, std::size_t rank) const = 0;

  /// Fills `out` with every value whose magnitude() is at least `least` (`least` >= 1). False, with `out` empty, if
  /// there are more than `limit`.
  virtual Result<bool> collect(std::uint32_t least, std::size_t limit, Selection& out) const = 0;

  /// Fills `out` with the `count` values of largest magnitude (of equal ones, the first), or with all that are not zero
  /// if these are fewer. 1 <= count <= size().
  virtual Result<void> select_largest(std::size_t count, Selection& out) const = 0;

  /// The first that is NaN or infinite. There is one.
  virtual Result<NonFinite> first_non_finite() const = 0;

  /// Of values in the host's memory, for who chooses only there (Compressor::codes_on).
  virtual std::span<const float> on_host() const = 0;
};

/// Like select_largest(), but mostly in one pass: a sample provides a threshold a little below the cut. `peaks` may be
/// empty.
void select_largest_by_sample(std::span<const float> values, Peaks peaks, std::size_t count, Selection& out);

/// Of a tensor in the host's memory.
class HostValues final : public Values {
 public:
  /// `peaks` may be empty.
  HostValues(std::span<const float> values, Peaks peaks) : values_(values), peaks_(peaks) {}

  std::size_t size() const override { return values_.size(); }
  Result<std::uint32_t> sampled_cut(const StridedSample& sample, std::size_t rank) const override;
  Result<bool> collect(std::uint32_t least, std::size_t limit, Selection& out) const override;
  Result<void> select_largest(std::size_t count, Selection& out) const override;
  Result<NonFinite> first_non_finite() const override;
  std::span<const float> on_host() const override { return values_; }

 private:
  std::span<const float> values_;
  Peaks peaks_;
};

}  // namespace weir::compressors
