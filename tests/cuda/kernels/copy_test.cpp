#include "cuda/kernels/copy.hpp"

#include "cuda/event.hpp"
#include "cuda/kernels/present.hpp"
#include "tests/cuda/kernels/support.hpp"

namespace weir::cuda {
namespace {

TEST(CudaCopy, CopiesEveryEntryAtAnyAlignment) {
  for (const std::size_t n : sizes) {
    const auto values = some_values(n, Among::extremes);
    const Array<float> to(n, n % 3);
    copy(Array<float>(values, n % 4).data(), n, to.data(), nullptr).value();
    ASSERT_TRUE(same_bits(to.read(), values)) << n;
  }
}

TEST(CudaPresent, KernelsAreThereWhereTheyRun) {
  const auto found = check_kernels();
  EXPECT_TRUE(found) << found.error().message();
}

TEST(CudaEvent, TimeBetweenTwoPointsIsNotNegative) {
  const auto stream = Stream::make().value();
  const auto start = Event::make().value();
  const auto end = Event::make().value();
  const Array<float> values(std::vector<float>(1000));
  start.record(stream.handle()).value();
  copy(values.data(), 500, values.data() + 500, stream.handle()).value();
  end.record(stream.handle()).value();
  end.wait().value();
  EXPECT_GE(Event::milliseconds_between(start, end).value(), 0);
}

}  // namespace
}  // namespace weir::cuda
