#include "cuda/kernels/clusters.hpp"

#include <algorithm>
#include <numeric>

#include "compressors/kernels/pack.hpp"
#include "compressors/kernels/sketching/clusters.hpp"
#include "tests/cuda/kernels/support.hpp"

namespace weir::cuda {
namespace {

constexpr std::uint32_t salt = 0x12345678;

compressors::Clusters some_clusters(unsigned bits, std::uint64_t n) {
  compressors::Clusters clusters;
  clusters.bits = bits;
  const std::size_t each = clusters.thresholds_per_sign();
  for (std::size_t t = 0; t < 2 * each; ++t) {
    clusters.thresholds[t] = std::ldexp(1.0F + static_cast<float>(t >= each), static_cast<int>(t % each) - 6);
  }
  for (std::size_t c = 0; c < clusters.count(); ++c) clusters.sizes[c] = static_cast<std::uint32_t>(7 + 5 * c);
  clusters.cover(compressors::Segments(n));
  return clusters;
}

Clusters of_kernels(const compressors::Clusters& clusters) {
  Clusters to{.bits = clusters.bits, .salt = salt};
  std::ranges::copy(clusters.thresholds, to.thresholds);
  std::ranges::copy(clusters.sizes, to.sizes);
  std::exclusive_scan(to.sizes, to.sizes + clusters.count(), to.tables, 0U);
  return to;
}

void expect_twin(std::size_t n, Among among, unsigned bits) {
  SCOPED_TRACE(named(n, among) + " in " + std::to_string(bits) + " bits");
  const auto values = some_values(n, among);
  const compressors::Clusters clusters = some_clusters(bits, n);
  compressors::ClusterTable table(clusters.buckets());
  std::vector<std::uint8_t> due_ids(n);
  std::uint32_t largest = 0;
  const compressors::Segments segments(n);
  for (std::size_t s = 0; s < segments.count(); ++s) {
    const compressors::Placing placing(clusters, salt, segments, s);
    for (std::size_t first = segments.begin(s); first < segments.begin(s + 1); first += compressors::cluster_block) {
      const std::size_t size = std::min(compressors::cluster_block, segments.begin(s + 1) - first);
      largest = std::max(
          largest, compressors::place_block(std::span(values).subspan(first, size), static_cast<std::uint32_t>(first),
                                            placing, table, std::span(due_ids).subspan(first, size)));
    }
  }
  const Array<float> x(values, 1);
  const Array<std::byte> ids(n, 3);
  const Array<std::int32_t> buckets(n, 1);
  const Reported report;
  place_entries(x.data(), n, of_kernels(clusters), ids.data(), buckets.data(), report.at(), nullptr).value();
  ASSERT_EQ(report.read().largest, largest);
  if (largest >= magnitude_infinite) return;
  const auto found_ids = ids.read();
  ASSERT_TRUE(std::ranges::equal(found_ids, due_ids, {}, {}, [](std::uint8_t id) { return std::byte{id}; }));

  const auto found = buckets.read();
  std::vector<std::int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::int64_t i) { return found[static_cast<std::size_t>(i)]; });
  std::vector<std::int32_t> sorted(n);
  std::ranges::transform(order, sorted.begin(), [&](std::int64_t i) { return found[static_cast<std::size_t>(i)]; });
  std::vector<float> due(table.size());
  for (std::size_t i = 0; i < due.size(); ++i) due[i] = table.mean(i);
  const Array<float> means(due.size(), 1);
  mean_of_buckets(x.data(), n, Array<std::int32_t>(sorted).data(), Array<std::int64_t>(order).data(), due.size(),
                  means.data(), nullptr)
      .value();
  ASSERT_TRUE(same_bits(means.read(), due));

  std::vector<std::byte> packed(compressors::packed_bytes(n, bits));
  compressors::pack(due_ids, bits, packed);
  auto due_sum = some_values(n, Among::zeros, 2);
  const Array<float> sum(due_sum, 2);
  for (std::size_t s = 0; s < segments.count(); ++s) {
    const compressors::Placing placing(clusters, salt, segments, s);
    for (std::size_t first = segments.begin(s); first < segments.begin(s + 1); first += compressors::cluster_block) {
      const std::size_t size = std::min(compressors::cluster_block, segments.begin(s + 1) - first);
      compressors::expand_block(std::span(due_ids).subspan(first, size), static_cast<std::uint32_t>(first), placing,
                                due, 0.7F, std::span(due_sum).subspan(first, size));
    }
  }
  const Array<std::byte> ids_there(packed, 1);
  add_by_bucket(ids_there.data(), means.data(), n, of_kernels(clusters), 0.7F, sum.data(), nullptr).value();
  ASSERT_TRUE(same_bits(sum.read(), due_sum));
}

TEST(CudaClusters, IdsBucketsAndMeansAreThoseOfTheTwin) {
  for (const std::size_t n : sizes) {
    for (const Among among : all_kinds) {
      for (const unsigned bits : {1U, 2U, 4U}) {
        expect_twin(n, among, bits);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(CudaClusters, EachSegmentHasBucketsOfItsOwn) {
  for (const std::size_t n : {(std::size_t{1} << 18) - 1, (std::size_t{1} << 18) + 1, std::size_t{700'000}}) {
    expect_twin(n, Among::nothing, 3);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace weir::cuda
