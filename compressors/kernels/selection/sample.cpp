#include "compressors/kernels/selection/sample.hpp"

#include <vector>

namespace weir::compressors {
namespace {

/// A magnitude() that probably a few times as many sampled values reach as `rank`, estimated from every eighth one's
/// peak. 0 if it would not pay off. A share of the values is in at most peak_block times that share of the blocks, so
/// twice as many blocks leave room for chance.
std::uint32_t probable_floor(Peaks peaks, const StridedSample& sample, std::size_t rank) {
  constexpr std::size_t distance = 8;
  constexpr std::size_t many = 32 * 1024;
  const std::size_t blocks = 2 * peak_block * rank;
  if (sample.count < many || 4 * blocks > sample.count) return 0;
  thread_local std::vector<float> some;
  some.resize(sample.count / distance);
  for (std::size_t i = 0; i < some.size(); ++i) {
    some[i] = peaks[(sample.first + i * distance * sample.stride) / peak_block];
  }
  return cut_at_rank(some, blocks / distance).magnitude;
}

}  // namespace

std::uint32_t sampled_cut(std::span<const float> values, Peaks peaks, const StridedSample& sample, std::size_t rank) {
  thread_local std::vector<float> found;
  const auto position = [&](std::size_t i) { return sample.first + i * sample.stride; };
  if (const std::uint32_t floor = peaks.empty() ? 0 : probable_floor(peaks, sample, rank); floor > 0) {
    thread_local std::vector<std::uint32_t> positions;
    positions.resize(sample.count + 1);
    std::size_t count = 0;
    for (std::size_t i = 0; i < sample.count; ++i) {  // no branch: it could not be predicted
      positions[count] = static_cast<std::uint32_t>(position(i));
      count += magnitude(peaks[position(i) / peak_block]) >= floor;
    }
    found.resize(count);
    std::size_t reaching = 0;
    for (std::size_t i = 0; i < count; ++i) {
      found[i] = values[positions[i]];
      reaching += magnitude(found[i]) >= floor;
    }
    if (reaching >= rank) return cut_at_rank(found, rank).magnitude;
  }
  found.resize(sample.count);
  for (std::size_t i = 0; i < sample.count; ++i) found[i] = values[position(i)];
  return cut_at_rank(found, rank).magnitude;
}

}  // namespace weir::compressors
