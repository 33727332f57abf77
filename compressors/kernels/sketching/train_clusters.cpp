#include <algorithm>
#include <bit>
#include <boost/container/static_vector.hpp>
#include <cmath>
#include <numeric>
#include <vector>

#include "compressors/kernels/selection/selection.hpp"
#include "compressors/kernels/sketching/clusters.hpp"

namespace weir::compressors {
namespace {

constexpr std::size_t sample_max = 100'000;
constexpr unsigned lloyd_steps = 25;
constexpr std::size_t entropy_bins = 5;
constexpr double tail_weight = 3;  ///< factor of the tail's entropy

/// log2 to 2^-16, computed with integers only, so that every machine gets the same tables. `x` is at least 1.
double log2_of(std::uint64_t x) {
  const auto whole = static_cast<unsigned>(std::bit_width(x)) - 1;
  std::uint64_t fraction = whole >= 31 ? x >> (whole - 31) : x << (31 - whole);  // in [1, 2), with 31 fractional bits
  std::uint64_t bits = 0;
  for (unsigned i = 0; i < 16; ++i) {
    fraction = fraction * fraction >> 31;
    bits = bits << 1 | (fraction >> 32);
    if (fraction >> 32) fraction >>= 1;
  }
  return whole + static_cast<double>(bits) * 0x1p-16;
}

/// Numbers of each cluster of one sign.
template <class Number>
using PerCluster = boost::container::static_vector<Number, clusters_max / 2>;

/// Radix sort in three passes over eleven bits each; magnitudes have 31 bits. `sorted` is working memory.
void sort_magnitudes(std::vector<std::uint32_t>& values, std::vector<std::uint32_t>& sorted) {
  constexpr unsigned digit_bits = 11;
  sorted.resize(values.size());
  for (unsigned shift = 0; shift < 31; shift += digit_bits) {
    std::array<std::uint32_t, 1 << digit_bits> places{};
    const auto digit = [shift](std::uint32_t value) { return value >> shift & ((1U << digit_bits) - 1); };
    for (const std::uint32_t value : values) ++places[digit(value)];
    std::exclusive_scan(places.begin(), places.end(), places.begin(), 0U);
    for (const std::uint32_t value : values) sorted[places[digit(value)]++] = value;
    values.swap(sorted);
  }
}

/// The sampled magnitudes of one sign, ascending.
class Sample {
 public:
  void clear() { sorted_.clear(); }
  void add(float x) { sorted_.push_back(magnitude(x)); }
  void finish() {
    sort_magnitudes(sorted_, sorting_);
    sums_.resize(sorted_.size() + 1);
    sums_[0] = 0;
    for (std::size_t i = 0; i < sorted_.size(); ++i) sums_[i + 1] = sums_[i] + (*this)[i];
  }

  std::size_t size() const { return sorted_.size(); }
  float operator[](std::size_t i) const { return std::bit_cast<float>(sorted_[i]); }
  double mean(std::size_t begin, std::size_t end) const {
    return begin == end ? 0 : (sums_[end] - sums_[begin]) / static_cast<double>(end - begin);
  }
  /// The number of magnitudes smaller than `x`.
  std::size_t below(double x) const {
    return static_cast<std::size_t>(
        std::ranges::lower_bound(sorted_, x, {},
                                 [](std::uint32_t it) { return static_cast<double>(std::bit_cast<float>(it)); }) -
        sorted_.begin());
  }

  /// The entropy in bits, over entropy_bins bins of equal width between the first and the last magnitude of a range.
  double entropy(std::size_t begin, std::size_t end) const {
    if (begin == end) return 0;
    const double least = (*this)[begin];
    const double width = ((*this)[end - 1] - least) / entropy_bins;
    const auto all = static_cast<double>(end - begin);
    double bits = log2_of(end - begin);
    std::size_t before = begin;
    for (std::size_t bin = 1; bin <= entropy_bins; ++bin) {
      const double edge = least + width * static_cast<double>(bin);
      const std::size_t upto = bin == entropy_bins ? end : std::clamp(below(edge), before, end);
      if (upto > before) bits -= static_cast<double>(upto - before) / all * log2_of(upto - before);
      before = upto;
    }
    return std::max(bits, 0.0);
  }

 private:
  std::vector<std::uint32_t> sorted_;
  std::vector<std::uint32_t> sorting_;
  std::vector<double> sums_;  ///< sums of the magnitudes before each
};

/// The thresholds between the clusters of one sign.
PerCluster<float> cut(const Sample& sample, std::size_t clusters) {
  if (clusters == 1) return {};
  const std::size_t rest = sample.size() * 95 / 100;  // all but the tail, at first in equal shares
  PerCluster<double> centers(clusters, sample[rest]);
  for (std::size_t c = 0; c + 1 < clusters; ++c) {
    const std::size_t begin = rest * c / (clusters - 1);
    const std::size_t end = rest * (c + 1) / (clusters - 1);
    if (begin < end) centers[c] = sample.mean(begin, end);
  }
  for (unsigned step = 0; step < lloyd_steps; ++step) {
    std::size_t begin = 0;
    bool moved = false;
    for (std::size_t c = 0; c + 1 < clusters; ++c) {
      const std::size_t end = std::clamp(sample.below((centers[c] + centers[c + 1]) / 2), begin, rest);
      if (begin < end) {
        const double center = sample.mean(begin, end);
        moved |= center != centers[c];
        centers[c] = center;
      }
      begin = end;
    }
    if (!moved) break;
  }
  PerCluster<float> thresholds;
  for (std::size_t c = 0; c + 1 < clusters; ++c) {
    thresholds.push_back(static_cast<float>((centers[c] + centers[c + 1]) / 2));
  }
  std::ranges::sort(thresholds);
  return thresholds;
}

/// The weight of each cluster of one sign when the buckets are divided among the clusters.
PerCluster<double> weights(const Sample& sample, const PerCluster<float>& thresholds) {
  PerCluster<double> weights(thresholds.size() + 1);
  double largest = 0;
  std::size_t begin = 0;
  for (std::size_t c = 0; c < weights.size(); ++c) {
    const std::size_t end = c < thresholds.size() ? sample.below(thresholds[c]) : sample.size();
    const double mean = sample.mean(begin, end);
    const double tail = c + 1 == weights.size() ? tail_weight : 1;
    weights[c] = tail * sample.entropy(begin, end) * mean * static_cast<double>(end - begin);
    largest = std::max(largest, mean);
    begin = end;
  }
  for (double& weight : weights) weight = largest > 0 ? weight / largest : 0;
  return weights;
}

}  // namespace

std::size_t cluster_sample_stride(std::size_t values) {
  // With an odd stride, the sample meets every column of a matrix whose width is a power of two.
  return values <= sample_max ? 1 : values / sample_max | 1;
}

bool train_clusters(std::span<const float> values, std::size_t stride, unsigned bits, std::size_t buckets,
                    Clusters& clusters) {
  thread_local std::array<Sample, 2> samples;  // kept between calls to reuse their memory
  for (Sample& sample : samples) sample.clear();
  for (std::size_t i = 0; i < values.size(); i += stride) {
    if (magnitude(values[i]) > 0 && magnitude(values[i]) < magnitude_infinite) {
      samples[std::signbit(values[i]) ? 1 : 0].add(values[i]);
    }
  }
  clusters = {};
  clusters.bits = bits;
  clusters.sizes = {};
  std::fill_n(clusters.sizes.begin(), clusters.count(), static_cast<std::uint32_t>(cluster_buckets_min));
  for (Sample& sample : samples) sample.finish();
  std::fill_n(clusters.thresholds.begin(), 2 * clusters.thresholds_per_sign(),
              std::bit_cast<float>(magnitude_infinite - 1));
  if (samples[0].size() + samples[1].size() == 0) return false;

  const std::size_t each = clusters.count() / 2;
  boost::container::static_vector<double, clusters_max> asked;
  for (std::size_t sign = 0; sign < 2; ++sign) {
    // A sign that was not seen gets the thresholds of the other one.
    const Sample& sample = samples[samples[sign].size() > 0 ? sign : 1 - sign];
    const PerCluster<float> thresholds = cut(sample, each);
    std::ranges::copy(thresholds, clusters.thresholds.begin() + static_cast<std::ptrdiff_t>(sign * (each - 1)));
    PerCluster<double> share = weights(sample, thresholds);
    if (samples[sign].size() == 0) std::ranges::fill(share, 0);
    asked.insert(asked.end(), share.begin(), share.end());
  }
  double all = 0;
  for (const double share : asked) all += share;
  for (std::size_t c = 0; c < asked.size() && all > 0; ++c) {
    const double share = asked[c] / all * static_cast<double>(buckets);
    clusters.sizes[c] = std::max(clusters.sizes[c], static_cast<std::uint32_t>(share));
  }
  return true;
}

}  // namespace weir::compressors
