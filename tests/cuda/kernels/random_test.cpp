#include "compressors/kernels/random/random.hpp"

#include "cuda/kernels/random.hpp"
#include "tests/cuda/kernels/support.hpp"

namespace weir::cuda {
namespace {

TEST(CudaRandom, WordsAreThoseOfTheTwin) {
  const compressors::RandomKey due_key = {
      .seed = 0x123456789ABCDEF, .step = 0x123456789A, .tensor = 7, .stream = 0xFFFE};
  const RandomKey key = {.seed = due_key.seed, .step = due_key.step, .tensor = 7, .stream = 0xFFFE};
  for (const std::uint64_t begin : {std::uint64_t{0}, std::uint64_t{64}, std::uint64_t{1} << 33}) {
    for (const std::size_t n : sizes) {
      std::vector<std::uint32_t> due(n);
      compressors::fill_random(due_key, begin, due);
      const Array<std::uint32_t> words(n, n % 3);
      fill_random(key, begin, words.data(), n, nullptr).value();
      ASSERT_TRUE(same_bits(words.read(), due)) << n << " from " << begin;
    }
  }
}

}  // namespace
}  // namespace weir::cuda
