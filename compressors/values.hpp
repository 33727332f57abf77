#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "compressors/kernels/random/draw.hpp"
#include "compressors/kernels/random/random.hpp"
#include "compressors/kernels/selection/sample.hpp"
#include "compressors/kernels/selection/selection.hpp"

namespace weir::compressors {

/// A value that is NaN or infinite, and where it is.
struct NonFinite {
  std::size_t at = 0;
  float value = 0;
};

/// Runs of neighbouring values of a tensor: `length` values from 0, `distance`, 2 * distance, ... on, `count` runs.
struct SampledRuns {
  std::size_t length = 1;
  std::size_t distance = 1;
  std::size_t count = 0;
};

/// A value of a sample: the `rank`-th largest, 1 <= rank <= sample.count.
struct SampledRank {
  StridedSample sample;
  std::size_t rank = 1;
};

/// What Values::collect_by_sample() returns.
struct CollectedBySample {
  std::uint32_t cut = 0;  ///< the magnitude() of the sample's value
  bool complete = false;  ///< as of Values::collect()
};

/// The values of a tensor among which a sparsifier chooses, wherever they lie: in the host's memory or on a device.
/// What is found is in the host's memory and the same in both cases, bit for bit.
class Values {
 public:
  virtual ~Values() = default;

  virtual std::size_t size() const = 0;

  /// The entries that collect() finds with the cut of a sample, or with 1 if that is 0.
  virtual Result<CollectedBySample> collect_by_sample(const SampledRank& ranked, std::size_t limit,
                                                      Selection& out) const = 0;

  /// Fills `out` with |x| of each value of the runs.
  virtual Result<void> sample_magnitudes(const SampledRuns& runs, std::vector<float>& out) const = 0;

  /// Fills `out` with every value whose magnitude() is at least `least` (`least` >= 1). False, with `out` empty, if
  /// there are more than `limit`.
  virtual Result<bool> collect(std::uint32_t least, std::size_t limit, Selection& out) const = 0;

  /// Fills `out` with the `count` values of largest magnitude (of equal ones, the first), or with all that are not zero
  /// if these are fewer. 1 <= count <= size().
  virtual Result<void> select_largest(std::size_t count, Selection& out) const = 0;

  /// The same of each block of `block` values (the last one may be shorter): 1 <= of_block <= block <= 65536.
  virtual Result<void> select_of_blocks(std::size_t block, std::size_t of_block, Selection& out) const = 0;

  /// The first that is NaN or infinite. There is one.
  virtual Result<NonFinite> first_non_finite() const = 0;

  /// The statistics for a water level (transforms/water_filling.hpp), with the sum of the values whose magnitude() is
  /// less than `below`.
  virtual Result<MagnitudeSums> magnitude_sums(std::uint32_t below) const = 0;

  /// Draws values at random with that level, each with its probability() (transforms/water_filling.hpp), by its word of
  /// the key and another one, 2^32 words later: fills `out` with what they are decoded to. All are finite.
  virtual Result<void> draw(const RandomKey& key, float level, Selection& out) const = 0;
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
  Result<CollectedBySample> collect_by_sample(const SampledRank& ranked, std::size_t limit,
                                              Selection& out) const override;
  Result<void> sample_magnitudes(const SampledRuns& runs, std::vector<float>& out) const override;
  Result<bool> collect(std::uint32_t least, std::size_t limit, Selection& out) const override;
  Result<void> select_largest(std::size_t count, Selection& out) const override;
  Result<void> select_of_blocks(std::size_t block, std::size_t of_block, Selection& out) const override;
  Result<NonFinite> first_non_finite() const override;
  Result<MagnitudeSums> magnitude_sums(std::uint32_t below) const override;
  Result<void> draw(const RandomKey& key, float level, Selection& out) const override;

 private:
  std::span<const float> values_;
  Peaks peaks_;
};

}  // namespace weir::compressors
