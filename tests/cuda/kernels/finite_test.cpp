#include "cuda/kernels/finite.hpp"

#include <algorithm>

#include "compressors/kernels/arithmetic.hpp"
#include "compressors/kernels/selection/selection.hpp"
#include "tests/cuda/kernels/support.hpp"

namespace weir::cuda {
namespace {

TEST(CudaFinite, FindsWhatTheTwinsFind) {
  for (const std::size_t n : sizes) {
    for (const Among among : all_kinds) {
      SCOPED_TRACE(named(n, among));
      auto values = some_values(n, among);
      if (among == Among::non_finite && n > 5) values[n - 2] = -values[n / 3] / 0.0F;  // another one
      const Array<float> x(values, n % 4);
      const Reported report;
      find_largest(x.data(), n, report.at(), nullptr).value();
      EXPECT_EQ(report.read().largest < magnitude_infinite, compressors::all_finite(values));
      std::uint32_t largest = 0;
      for (const float value : values) largest = std::max(largest, compressors::magnitude(value));
      EXPECT_EQ(report.read().largest, largest);
      const Array<unsigned long long> first(1);
      find_non_finite(x.data(), n, first.data(), nullptr).value();
      EXPECT_EQ(first.read()[0], compressors::find_non_finite(values));
    }
  }
}

}  // namespace
}  // namespace weir::cuda
