// Tensors of more than 2^31 bytes: every index and length is wider than an int.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "support.hpp"

namespace weir::compressors::test {
namespace {

constexpr std::int64_t entries = (std::int64_t{1} << 29) + 67;
constexpr std::int64_t parts = 16;

/// Calls body(part, begin, end) for ranges that together are all entries.
template <class Body>
void for_each_part(const Body& body) {
  for (std::int64_t part = 0; part < parts; ++part) body(part, entries * part / parts, entries * (part + 1) / parts);
}

/// Numbers without any pattern that a part could differ in from the others; few of them hold most of the norm.
at::Tensor gradient() {
  at::Tensor x = at::empty({entries});
  float* values = x.data_ptr<float>();
  for (std::int64_t i = 0; i < entries; ++i) {
    std::uint64_t word = static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15;  // splitmix64
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9;
    word = (word ^ word >> 27) * 0x94D049BB133111EB;
    const float unit = (static_cast<float>(word >> 40) + 0.5F) / 16777216.0F - 0.5F;
    values[i] = 1e-3F * unit / (0.501F - std::abs(unit));
  }
  return x;
}

/// The squared distance of two tensors in each part.
std::array<double, parts> squared_distances(const at::Tensor& x, const at::Tensor& y) {
  std::array<double, parts> sums{};
  const float* a = x.data_ptr<float>();
  const float* b = y.data_ptr<float>();
  for_each_part([&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const double difference = static_cast<double>(a[i]) - b[i];
      sums[part] += difference * difference;
    }
  });
  return sums;
}

/// All parts of a tensor are decoded equally well: an index or a length that is too narrow would spoil the later ones.
/// One test for the whole catalog, because getting so much memory takes longer than most members take to read it.
TEST(Huge, TensorsAreEncodedAndDecoded) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "takes too much memory and time under a sanitizer";
#endif
  const at::Tensor x = gradient();
  at::Tensor y = at::zeros({entries});
  const auto norms = squared_distances(x, y);
  const double norm = std::accumulate(norms.begin(), norms.end(), 0.0);
  const Round round = round_at(1);
  for (const CompressorEntry& entry : builtin().compressors()) {
    SCOPED_TRACE(entry.name);
    const auto compressor = entry.make(nullptr).value();
    const Bytes payload = encoded(*compressor, x, round);
    y.zero_();
    ASSERT_TRUE(compressor->decode_add(payload, last_pass(*compressor, round), 1, y));
    const auto errors = squared_distances(x, y);
    const double error = std::accumulate(errors.begin(), errors.end(), 0.0);
    for (std::int64_t part = 0; part < parts; ++part) {
      EXPECT_NEAR(errors[part] / norms[part], error / norm, 0.02 * error / norm) << "part " << part;
    }
    const double bound = compressor->error_bound(static_cast<std::uint64_t>(entries), round);
    if (std::isfinite(bound)) {
      EXPECT_LE(error, bound * norm * (1 + 1e-3));  // of those that draw at random, a bound of the expectation
    }
  }
}

}  // namespace
}  // namespace weir::compressors::test
