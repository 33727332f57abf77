#include "cuda/kernels/signs.hpp"

#include "compressors/kernels/quantization/signs.hpp"
#include "tests/cuda/kernels/support.hpp"

namespace weir::cuda {
namespace {

const compressors::RandomKey due_coins = {.seed = 99, .step = 1234567, .tensor = 3, .stream = 2};
const RandomKey coins = {.seed = 99, .step = 1234567, .tensor = 3, .stream = 2};

bool is_finite(const Report& report) { return report.largest < magnitude_infinite; }

TEST(CudaSigns, VotesAreThoseOfTheTwin) {
  for (const std::size_t n : sizes) {
    for (const Among among : all_kinds) {
      SCOPED_TRACE(named(n, among));
      const auto values = some_values(n, among);
      std::vector<std::byte> due(compressors::sign_bytes(n));
      const bool finite = compressors::write_votes(values, 0, due_coins, due);
      const Reported report;
      const Array<float> x(values, n % 4);
      const Array<std::byte> bits(due.size(), n % 5);
      write_votes(one(CodeToWrite{x.data(), n, coins, bits.data(), report.at()}), nullptr).value();
      ASSERT_EQ(is_finite(report.read()), finite);
      if (!finite) continue;
      ASSERT_TRUE(same_bits(bits.read(), due));
    }
  }
}

TEST(CudaSigns, SignsAndTheirSumsAreThoseOfTheTwin) {
  for (const std::size_t n : sizes) {
    for (const Among among : all_kinds) {
      SCOPED_TRACE(named(n, among));
      const auto values = some_values(n, among);
      std::vector<std::byte> due(compressors::sign_bytes(n));
      compressors::SignSums due_sums;
      const bool finite = compressors::write_signs(values, due, due_sums);
      const Array<float> x(values, n % 4);
      const Array<std::byte> bits(due.size(), n % 5);
      const Array<SignSums> parts(sign_sum_parts(n));
      const Array<SignSums> sums(1);
      const Reported report;
      write_signs(one(SignsToWrite{x.data(), n, bits.data(), parts.data(), sums.data(), report.at()}), nullptr).value();
      ASSERT_EQ(is_finite(report.read()), finite);
      if (!finite) continue;
      ASSERT_TRUE(same_bits(bits.read(), due));
      const SignSums found = sums.read()[0];
      EXPECT_EQ(std::bit_cast<std::uint64_t>(found.positive), std::bit_cast<std::uint64_t>(due_sums.positive));
      EXPECT_EQ(std::bit_cast<std::uint64_t>(found.negative), std::bit_cast<std::uint64_t>(due_sums.negative));
      EXPECT_EQ(found.negatives, due_sums.negatives);
    }
  }
}

TEST(CudaSigns, SumsOfSeveralRunsAreThoseOfTheTwin) {
  const std::size_t n = 2 * compressors::sign_sum_run + 5000;
  const auto values = some_values(n, Among::zeros);
  std::vector<std::byte> bits(compressors::sign_bytes(n));
  compressors::SignSums due;
  ASSERT_TRUE(compressors::write_signs(values, bits, due));
  const Array<std::byte> to(bits.size());
  const Array<SignSums> parts(sign_sum_parts(n));
  const Array<SignSums> sums(1);
  const Array<float> x(values);
  const Reported report;
  write_signs(one(SignsToWrite{x.data(), n, to.data(), parts.data(), sums.data(), report.at()}), nullptr).value();
  const SignSums found = sums.read()[0];
  EXPECT_EQ(found.positive, due.positive);
  EXPECT_EQ(found.negative, due.negative);
  EXPECT_EQ(found.negatives, due.negatives);
}

TEST(CudaSigns, SumIsThatOfTheTwin) {
  for (const std::size_t n : sizes) {
    for (const Among among : all_kinds) {
      SCOPED_TRACE(named(n, among));
      std::vector<std::byte> bits(compressors::sign_bytes(n));
      compressors::write_signs(some_values(n, Among::zeros), bits);
      auto due = some_values(n, among, 2);
      const Array<float> sum(due, n % 4);
      compressors::add_by_sign(bits, 0.3F, -1e-30F, due);
      const Array<std::byte> code(bits, n % 5);
      add_by_sign(one(SignsToAdd{code.data(), n, 0.3F, -1e-30F, sum.data()}), nullptr).value();
      ASSERT_TRUE(same_bits(sum.read(), due));
    }
  }
}

TEST(CudaSigns, MajorityIsThatOfTheTwin) {
  for (const std::size_t n : sizes) {
    for (const Among among : all_kinds) {
      SCOPED_TRACE(named(n, among));
      auto due = some_values(n, among);
      const Array<float> values(due, n % 4);
      compressors::take_majority(1e-3F, due_coins, due);
      take_majority(1e-3F, one(VotesToCount{coins, values.data(), n}), nullptr).value();
      ASSERT_TRUE(same_bits(values.read(), due));
    }
  }
}

}  // namespace
}  // namespace weir::cuda
