// Tensors of more than 2^31 bytes: every index and length is wider than an int.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support.hpp"

namespace weir::compressors::test {
namespace {

double squared_distance(const at::Tensor& x, const at::Tensor& y) {
  const float* a = x.data_ptr<float>();
  const float* b = y.data_ptr<float>();
  double sum = 0;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const double difference = static_cast<double>(a[i]) - b[i];
    sum += difference * difference;
  }
  return sum;
}

/// All but a few entries, in front and behind, are zero. One test for the whole catalog: the operating system takes
/// longer to give so much memory than most members take to read it.
TEST(Huge, TensorsAreEncodedAndDecoded) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "takes too much memory and time under a sanitizer";
#endif
  constexpr std::int64_t entries = (std::int64_t{1} << 29) + 67;
  constexpr std::int64_t ends = 32;
  const at::Tensor x = at::zeros({entries});
  double norm = 0;
  for (std::int64_t i = 0; i < ends; ++i) {
    x.data_ptr<float>()[i] = 1 + static_cast<float>(i);
    x.data_ptr<float>()[entries - 1 - i] = -1 - static_cast<float>(i);
    norm += 2 * (1 + static_cast<double>(i)) * (1 + static_cast<double>(i));
  }
  at::Tensor y = at::zeros({entries});
  const Round round = round_at(1);
  for (const CompressorEntry& entry : builtin().compressors()) {
    SCOPED_TRACE(entry.name);
    const auto compressor = entry.make(nullptr).value();
    const Bytes payload = encoded(*compressor, x, round);
    y.zero_();
    ASSERT_TRUE(compressor->decode_add(payload, last_pass(*compressor, round), 1, y));
    const double bound = compressor->error_bound(static_cast<std::uint64_t>(entries), round);
    const double error = squared_distance(x, y);
    if (!std::isfinite(bound)) {
      EXPECT_GT(y.data_ptr<float>()[0], 0);
      EXPECT_LT(y.data_ptr<float>()[entries - 1], 0);
    } else if (error > bound * norm * (1 + 1e-6)) {
      // The bound is one of the expectation, if the compressor draws at all.
      EXPECT_NE(encoded(*compressor, x, round_at(2)), payload);
      EXPECT_LE(error, (compressor->traits().biased ? std::max(bound, 1.0) : 20 * bound) * norm * (1 + 1e-6));
    }
  }
}

}  // namespace
}  // namespace weir::compressors::test
