#include "compressors/kernels/sketching/clusters.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/ensure.hpp"
#include "base/processor.hpp"
#include "compressors/kernels/selection/selection.hpp"
#include "compressors/kernels/sketching/hash.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weir::compressors {

std::size_t Clusters::buckets() const {
  return std::accumulate(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(count()), std::size_t{0});
}

void Clusters::cover(const Segments& segments) {
  const auto least = static_cast<std::uint32_t>(cluster_buckets_min * segments.count());
  for (std::size_t c = 0; c < count(); ++c) sizes[c] = std::max(sizes[c], least);
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

Placing::Placing(const Clusters& of, std::uint32_t with_salt, const Segments& segments, std::size_t segment)
    : clusters(of), salt(with_salt) {
  std::uint32_t table = 0;
  for (std::size_t c = 0; c < clusters.count(); ++c) {
    const std::uint64_t all = clusters.sizes[c];
    const std::uint64_t begin = all * segment / segments.count();
    begins[c] = table + static_cast<std::uint32_t>(begin);
    sizes[c] = static_cast<std::uint32_t>(all * (segment + 1) / segments.count() - begin);
    table += clusters.sizes[c];
  }
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

/// Writes the cluster ids of a block and returns the largest magnitude() in it.
[[gnu::always_inline]] inline std::uint32_t identify(const float* values, std::size_t n, const Clusters& clusters,
                                                     std::uint8_t* ids) {
  std::uint32_t wide[cluster_block];
  std::uint32_t largest = 0;
  find_ids(values, n, clusters, wide, largest);
  for (std::size_t i = 0; i < n; ++i) ids[i] = static_cast<std::uint8_t>(wide[i]);
  return largest;
}

std::uint32_t bucket_of(std::uint8_t id, std::size_t entry, const Placing& placing) {
  return placing.begins[id] + scaled_hash(mix32(static_cast<std::uint32_t>(entry) ^ placing.salt), placing.sizes[id]);
}

#if defined(__x86_64__)

/// A table with one number for each cluster.
struct Column {
  __m256i low;
  __m256i high;
};

WEIR_AVX2 inline Column column(const std::array<std::uint32_t, clusters_max>& numbers) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(numbers.data())),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(numbers.data() + 8))};
}

/// The numbers of eight clusters. `few`: there are at most eight clusters.
template <bool few>
WEIR_AVX2 inline __m256i pick(const Column& column, __m256i ids) {
  const __m256i from_low = _mm256_permutevar8x32_epi32(column.low, ids);
  if constexpr (few) return from_low;
  const __m256i from_high = _mm256_permutevar8x32_epi32(column.high, ids);
  return _mm256_blendv_epi8(from_low, from_high, _mm256_cmpgt_epi32(ids, _mm256_set1_epi32(7)));
}

WEIR_AVX2 inline __m256i mix(__m256i x) {
  x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 16));
  x = _mm256_mullo_epi32(x, _mm256_set1_epi32(static_cast<int>(0x85EBCA6B)));
  x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 13));
  x = _mm256_mullo_epi32(x, _mm256_set1_epi32(static_cast<int>(0xC2B2AE35)));
  return _mm256_xor_si256(x, _mm256_srli_epi32(x, 16));
}

/// Calls use(i, the buckets of entries i to i + 7) for each whole group of eight among n entries, and returns the
/// number of entries in these groups.
template <bool few>
WEIR_AVX2 inline std::size_t for_buckets(const std::uint8_t* ids, std::size_t n, std::uint32_t first,
                                         const Placing& placing, auto use) {
  const Column begins = column(placing.begins);
  const Column sizes = column(placing.sizes);
  const __m256i salt = _mm256_set1_epi32(static_cast<int>(placing.salt));
  __m256i entries =
      _mm256_add_epi32(_mm256_set1_epi32(static_cast<int>(first)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8, entries = _mm256_add_epi32(entries, _mm256_set1_epi32(8))) {
    const __m256i id = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(ids + i)));
    const __m256i size = pick<few>(sizes, id);
    const __m256i hash = mix(_mm256_xor_si256(entries, salt));
    const __m256i even = _mm256_srli_epi64(_mm256_mul_epu32(hash, size), 32);
    const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(hash, 32), _mm256_srli_epi64(size, 32));
    use(i, _mm256_add_epi32(pick<few>(begins, id), _mm256_blend_epi32(even, odd, 0b10101010)));
  }
  return i;
}

template <bool few>
WEIR_AVX2 std::size_t expand_avx2(const std::uint8_t* ids, std::size_t n, std::uint32_t first, const Placing& placing,
                                  const float* means, float weight, float* sum) {
  const __m256 weights = _mm256_set1_ps(weight);
  return for_buckets<few>(ids, n, first, placing, [&](std::size_t i, __m256i buckets) WEIR_AVX2 {
    const __m256 added = _mm256_mul_ps(weights, _mm256_i32gather_ps(means, buckets, 4));
    _mm256_storeu_ps(sum + i, _mm256_add_ps(_mm256_loadu_ps(sum + i), added));
  });
}

template <bool few>
WEIR_AVX2 std::size_t find_buckets_avx2(const std::uint8_t* ids, std::size_t n, std::uint32_t first,
                                        const Placing& placing, std::uint32_t* found) {
  return for_buckets<few>(ids, n, first, placing, [&](std::size_t i, __m256i buckets) WEIR_AVX2 {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(found + i), buckets);
  });
}

WEIR_AVX2 std::uint32_t identify_avx2(const float* values, std::size_t n, const Clusters& clusters, std::uint8_t* ids) {
  return identify(values, n, clusters, ids);
}

#endif

void find_buckets(const std::uint8_t* ids, std::size_t n, std::uint32_t first, const Placing& placing,
                  std::uint32_t* found) {
  std::size_t i = 0;
#if defined(__x86_64__)
  if (has_avx2()) {
    i = placing.clusters.count() <= 8 ? find_buckets_avx2<true>(ids, n, first, placing, found)
                                      : find_buckets_avx2<false>(ids, n, first, placing, found);
  }
#endif
  for (; i < n; ++i) found[i] = bucket_of(ids[i], first + i, placing);
}

}  // namespace

std::uint32_t place_block(std::span<const float> values, std::uint32_t first, const Placing& placing,
                          ClusterTable& table, std::span<std::uint8_t> ids) {
  ensure(values.size() <= cluster_block && ids.size() == values.size(), "a block at most");
  const std::size_t n = values.size();
#if defined(__x86_64__)
  const auto identify_block = has_avx2() ? identify_avx2 : identify;
#else
  const auto identify_block = identify;
#endif
  const std::uint32_t largest = identify_block(values.data(), n, placing.clusters, ids.data());
  std::uint32_t buckets[cluster_block];
  find_buckets(ids.data(), n, first, placing, buckets);
  table.add(std::span(buckets).first(n), values);
  return largest;
}

void expand_block(std::span<const std::uint8_t> ids, std::uint32_t first, const Placing& placing,
                  std::span<const float> means, float weight, std::span<float> sum) {
  ensure(ids.size() <= cluster_block && sum.size() == ids.size(), "a block at most");
  const std::size_t n = ids.size();
  std::size_t i = 0;
#if defined(__x86_64__)
  if (has_avx2()) {
    i = placing.clusters.count() <= 8
            ? expand_avx2<true>(ids.data(), n, first, placing, means.data(), weight, sum.data())
            : expand_avx2<false>(ids.data(), n, first, placing, means.data(), weight, sum.data());
  }
#endif
  for (; i < n; ++i) sum[i] += weight * means[bucket_of(ids[i], first + i, placing)];
}

}  // namespace weir::compressors
