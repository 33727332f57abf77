#include "compressors/kernels/clusters.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/ensure.hpp"
#include "base/processor.hpp"
#include "compressors/kernels/hash.hpp"
#include "compressors/kernels/selection.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weir::compressors {

std::size_t Clusters::buckets() const {
  return std::accumulate(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(count()), std::size_t{0});
}

float ClusterTable::mean(std::size_t bucket) const {
  const Cell& cell = cells_[bucket];
  return cell.count == 0 ? 0 : static_cast<float>(cell.sum / cell.count);
}

void ClusterTable::add(std::span<const std::uint32_t> buckets, std::span<const float> values) {
  Cell* const cells = cells_.data();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i + 24 < values.size()) __builtin_prefetch(&cells[buckets[i + 24]], 1);
    Cell& cell = cells[buckets[i]];
    cell.sum += values[i];
    ++cell.count;
  }
}

void ClusterTable::merge(const ClusterTable& other) {
  ensure(size() == other.size(), "tables of the same clusters");
  for (std::size_t i = 0; i < cells_.size(); ++i) add(i, other.cells_[i].sum, other.cells_[i].count);
}

namespace {

[[gnu::always_inline]] inline void find_ids(const float* values, std::size_t n, const Clusters& clusters,
                                            std::uint32_t* ids, std::uint32_t& largest) {
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

void look_up_portable(const std::uint32_t* ids, std::size_t n, const Tables& tables, std::uint32_t* hashes) {
  for (std::size_t i = 0; i < n; ++i) {
    hashes[i] = tables.begins[ids[i]] + scaled_hash(hashes[i], tables.sizes[ids[i]]);
  }
}

void add_means_portable(const std::uint32_t* buckets, std::size_t n, const float* means, float weight, float* sum) {
  for (std::size_t i = 0; i < n; ++i) sum[i] += weight * means[buckets[i]];
}

[[gnu::always_inline]] inline void hash_all(std::size_t n, std::uint32_t first, std::uint32_t salt,
                                            std::uint32_t* hashes) {
  for (std::size_t i = 0; i < n; ++i) hashes[i] = mix32((first + static_cast<std::uint32_t>(i)) ^ salt);
}

[[gnu::always_inline]] inline std::uint32_t identify(const float* values, std::size_t n, std::uint32_t first,
                                                     const Placing& placing, std::uint8_t* ids, std::uint32_t* wide,
                                                     std::uint32_t* hashes) {
  std::uint32_t largest = 0;
  find_ids(values, n, placing.clusters, wide, largest);
  hash_all(n, first, placing.salt, hashes);
  for (std::size_t i = 0; i < n; ++i) ids[i] = static_cast<std::uint8_t>(wide[i]);
  return largest;
}

[[gnu::always_inline]] inline void widen(const std::uint8_t* ids, std::size_t n, std::uint32_t first,
                                         const Placing& placing, std::uint32_t* wide, std::uint32_t* hashes) {
  for (std::size_t i = 0; i < n; ++i) wide[i] = ids[i];
  hash_all(n, first, placing.salt, hashes);
}

#if defined(__x86_64__)

/// The entries of a table of sixteen for eight indices below that.
WEIR_AVX2 inline __m256i pick(const std::uint32_t* table, __m256i indices) {
  const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(table));
  const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(table + 8));
  const __m256i from_high = _mm256_cmpgt_epi32(indices, _mm256_set1_epi32(7));
  return _mm256_blendv_epi8(_mm256_permutevar8x32_epi32(low, indices), _mm256_permutevar8x32_epi32(high, indices),
                            from_high);
}

WEIR_AVX2 void look_up_avx2(const std::uint32_t* ids, std::size_t n, const Tables& tables, std::uint32_t* hashes) {
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256i id = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(ids + i));
    const __m256i size = pick(tables.sizes.data(), id);
    const __m256i hash = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(hashes + i));
    const __m256i even = _mm256_srli_epi64(_mm256_mul_epu32(hash, size), 32);
    const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(hash, 32), _mm256_srli_epi64(size, 32));
    const __m256i scaled = _mm256_blend_epi32(even, odd, 0b10101010);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(hashes + i),
                        _mm256_add_epi32(pick(tables.begins.data(), id), scaled));
  }
  look_up_portable(ids + i, n - i, tables, hashes + i);
}

WEIR_AVX2 void add_means_avx2(const std::uint32_t* buckets, std::size_t n, const float* means, float weight,
                              float* sum) {
  const __m256 weights = _mm256_set1_ps(weight);
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256i at = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(buckets + i));
    const __m256 added = _mm256_mul_ps(weights, _mm256_i32gather_ps(means, at, 4));
    _mm256_storeu_ps(sum + i, _mm256_add_ps(_mm256_loadu_ps(sum + i), added));
  }
  add_means_portable(buckets + i, n - i, means, weight, sum + i);
}

WEIR_AVX2 std::uint32_t identify_avx2(const float* values, std::size_t n, std::uint32_t first, const Placing& placing,
                                      std::uint8_t* ids, std::uint32_t* wide, std::uint32_t* hashes) {
  return identify(values, n, first, placing, ids, wide, hashes);
}

WEIR_AVX2 void widen_avx2(const std::uint8_t* ids, std::size_t n, std::uint32_t first, const Placing& placing,
                          std::uint32_t* wide, std::uint32_t* hashes) {
  widen(ids, n, first, placing, wide, hashes);
}

#endif

}  // namespace

std::uint32_t place_block(std::span<const float> values, std::uint32_t first, const Placing& placing,
                          ClusterTable& table, std::span<std::uint8_t> ids) {
  ensure(values.size() <= cluster_block && ids.size() == values.size(), "a block at most");
  const Tables tables(placing.clusters);
  const std::size_t n = values.size();
  std::uint32_t wide[cluster_block];
  std::uint32_t buckets[cluster_block];
  std::uint32_t largest = 0;
#if defined(__x86_64__)
  if (has_avx2()) {
    largest = identify_avx2(values.data(), n, first, placing, ids.data(), wide, buckets);
    look_up_avx2(wide, n, tables, buckets);
  } else {
    largest = identify(values.data(), n, first, placing, ids.data(), wide, buckets);
    look_up_portable(wide, n, tables, buckets);
  }
#else
  largest = identify(values.data(), n, first, placing, ids.data(), wide, buckets);
  look_up_portable(wide, n, tables, buckets);
#endif
  table.add(std::span(buckets).first(n), values);
  return largest;
}

void expand_block(std::span<const std::uint8_t> ids, std::uint32_t first, const Placing& placing,
                  std::span<const float> means, float weight, std::span<float> sum) {
  ensure(ids.size() <= cluster_block && sum.size() == ids.size(), "a block at most");
  const Tables tables(placing.clusters);
  const std::size_t n = ids.size();
  std::uint32_t wide[cluster_block];
  std::uint32_t buckets[cluster_block];
#if defined(__x86_64__)
  if (has_avx2()) {
    widen_avx2(ids.data(), n, first, placing, wide, buckets);
    look_up_avx2(wide, n, tables, buckets);
    add_means_avx2(buckets, n, means.data(), weight, sum.data());
    return;
  }
#endif
  widen(ids.data(), n, first, placing, wide, buckets);
  look_up_portable(wide, n, tables, buckets);
  add_means_portable(buckets, n, means.data(), weight, sum.data());
}

}  // namespace weir::compressors
