#include "compressors/kernels/clusters.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/ensure.hpp"
#include "compressors/kernels/hash.hpp"
#include "compressors/kernels/processor.hpp"
#include "compressors/kernels/selection.hpp"

namespace weir::compressors {

std::size_t Clusters::buckets() const {
  return std::accumulate(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(count()), std::size_t{0});
}

float ClusterTable::mean(std::size_t bucket) const {
  const Cell& cell = cells_[bucket];
  return cell.count == 0 ? 0 : static_cast<float>(cell.sum / cell.count);
}

void ClusterTable::merge(const ClusterTable& other) {
  ensure(size() == other.size(), "tables of the same clusters");
  for (std::size_t i = 0; i < cells_.size(); ++i) add(i, other.cells_[i].sum, other.cells_[i].count);
}

namespace {

template <class Lane>
[[gnu::always_inline]] inline void find_ids(const float* values, std::size_t n, const Clusters& clusters, Lane* ids,
                                            std::uint32_t& largest) {
  for (std::size_t i = 0; i < n; ++i) ids[i] = std::bit_cast<std::uint32_t>(values[i]) >> 31 << (clusters.bits - 1);
  for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, magnitude(values[i]));
  const std::size_t each = clusters.thresholds_per_sign();
  for (std::size_t t = 0; t < each; ++t) {
    const auto positive = static_cast<std::int32_t>(magnitude(clusters.thresholds[t]));
    const auto negative = static_cast<std::int32_t>(magnitude(clusters.thresholds[each + t]));
    for (std::size_t i = 0; i < n; ++i) {
      const auto bits = std::bit_cast<std::int32_t>(values[i]);
      ids[i] += (bits & 0x7FFFFFFF) >= (bits < 0 ? negative : positive) ? 1 : 0;
    }
  }
}

/// Where each table begins.
struct Tables {
  std::array<std::uint32_t, clusters_max> begins{};
  std::array<std::uint32_t, clusters_max> sizes{};

  explicit Tables(const Clusters& clusters) : sizes(clusters.sizes) {
    std::exclusive_scan(sizes.begin(), sizes.end(), begins.begin(), 0U);
  }
};

template <class Id>
[[gnu::always_inline]] inline void hash_all(const Id* ids, std::size_t n, std::uint32_t first, std::uint32_t salt,
                                            const Tables& tables, std::uint32_t* buckets) {
  for (std::size_t i = 0; i < n; ++i) buckets[i] = mix32((first + static_cast<std::uint32_t>(i)) ^ salt);
  for (std::size_t i = 0; i < n; ++i) {
    buckets[i] = tables.begins[ids[i]] + scaled_hash(buckets[i], tables.sizes[ids[i]]);
  }
}

[[gnu::always_inline]] inline std::uint32_t place(const float* values, std::size_t n, std::uint32_t first,
                                                  const Placing& placing, const Tables& tables, std::uint8_t* ids,
                                                  std::uint32_t* buckets) {
  std::uint32_t wide[cluster_block];
  std::uint32_t largest = 0;
  find_ids(values, n, placing.clusters, wide, largest);
  hash_all(wide, n, first, placing.salt, tables, buckets);
  for (std::size_t i = 0; i < n; ++i) ids[i] = static_cast<std::uint8_t>(wide[i]);
  return largest;
}

[[gnu::always_inline]] inline void find(const std::uint8_t* ids, std::size_t n, std::uint32_t first,
                                        const Placing& placing, const Tables& tables, std::uint32_t* buckets) {
  std::uint32_t wide[cluster_block];
  for (std::size_t i = 0; i < n; ++i) wide[i] = ids[i];
  hash_all(wide, n, first, placing.salt, tables, buckets);
}

[[gnu::always_inline]] inline void add_means(const std::uint32_t* buckets, std::size_t n, const float* means,
                                             float weight, float* sum) {
  for (std::size_t i = 0; i < n; ++i) sum[i] += weight * means[buckets[i]];
}

std::uint32_t place_portable(const float* values, std::size_t n, std::uint32_t first, const Placing& placing,
                             const Tables& tables, std::uint8_t* ids, std::uint32_t* buckets) {
  return place(values, n, first, placing, tables, ids, buckets);
}

void find_portable(const std::uint8_t* ids, std::size_t n, std::uint32_t first, const Placing& placing,
                   const Tables& tables, std::uint32_t* buckets) {
  find(ids, n, first, placing, tables, buckets);
}

void add_means_portable(const std::uint32_t* buckets, std::size_t n, const float* means, float weight, float* sum) {
  add_means(buckets, n, means, weight, sum);
}

#if defined(__x86_64__)

WEIR_AVX2 std::uint32_t place_avx2(const float* values, std::size_t n, std::uint32_t first, const Placing& placing,
                                   const Tables& tables, std::uint8_t* ids, std::uint32_t* buckets) {
  return place(values, n, first, placing, tables, ids, buckets);
}

WEIR_AVX2 void find_avx2(const std::uint8_t* ids, std::size_t n, std::uint32_t first, const Placing& placing,
                         const Tables& tables, std::uint32_t* buckets) {
  find(ids, n, first, placing, tables, buckets);
}

WEIR_AVX2 void add_means_avx2(const std::uint32_t* buckets, std::size_t n, const float* means, float weight,
                              float* sum) {
  add_means(buckets, n, means, weight, sum);
}

#endif

}  // namespace

std::uint32_t place_block(std::span<const float> values, std::uint32_t first, const Placing& placing,
                          ClusterTable& table, std::span<std::uint8_t> ids) {
  ensure(values.size() <= cluster_block && ids.size() == values.size(), "a block at most");
  const Tables tables(placing.clusters);
  std::uint32_t buckets[cluster_block];
#if defined(__x86_64__)
  const auto run = has_avx2() ? place_avx2 : place_portable;
#else
  const auto run = place_portable;
#endif
  const std::uint32_t largest = run(values.data(), values.size(), first, placing, tables, ids.data(), buckets);
  for (std::size_t i = 0; i < values.size(); ++i) table.add(buckets[i], values[i], 1);
  return largest;
}

void find_buckets(std::span<const std::uint8_t> ids, std::uint32_t first, const Placing& placing,
                  std::span<std::uint32_t> buckets) {
  ensure(ids.size() <= cluster_block && buckets.size() == ids.size(), "a block at most");
#if defined(__x86_64__)
  const auto run = has_avx2() ? find_avx2 : find_portable;
#else
  const auto run = find_portable;
#endif
  run(ids.data(), ids.size(), first, placing, Tables(placing.clusters), buckets.data());
}

void expand_block(std::span<const std::uint8_t> ids, std::uint32_t first, const Placing& placing,
                  std::span<const float> means, float weight, std::span<float> sum) {
  ensure(sum.size() == ids.size(), "a number for each id");
  std::uint32_t buckets[cluster_block];
  find_buckets(ids, first, placing, std::span(buckets).first(ids.size()));
#if defined(__x86_64__)
  const auto run = has_avx2() ? add_means_avx2 : add_means_portable;
#else
  const auto run = add_means_portable;
#endif
  run(buckets, sum.size(), means.data(), weight, sum.data());
}

}  // namespace weir::compressors
