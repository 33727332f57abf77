#include "cuda/kernels/chunks.hpp"

#include <algorithm>

#include "compressors/kernels/arithmetic.hpp"
#include "compressors/kernels/selection/exceedances.hpp"
#include "compressors/kernels/selection/selection.hpp"
#include "tests/cuda/kernels/support.hpp"

namespace weir::cuda {
namespace {

constexpr std::array<std::uint64_t, 4> lengths = {16, 100, 5000, 1 << 20};

std::span<const float> chunk_of(const std::vector<float>& values, const Chunks& chunks, std::uint64_t chunk) {
  return std::span(values)
      .subspan(chunk * chunks.length)
      .first(std::min(chunks.length, values.size() - chunk * chunks.length));
}

/// Some chunks, the last among them.
std::vector<std::uint32_t> some_chunks(const Chunks& chunks) {
  std::vector<std::uint32_t> chosen;
  for (std::uint64_t i = 0; i < chunks.count(); ++i) {
    if (i % 7 == 3 || i + 1 == chunks.count()) chosen.push_back(static_cast<std::uint32_t>(i));
  }
  return chosen;
}

TEST(CudaChunks, SumsOfMagnitudesAreThoseOfTheTwin) {
  for (const std::size_t n : sizes) {
    for (const Among among : all_kinds) {
      for (const std::uint64_t length : lengths) {
        if (n / length > 1000) continue;  // the emulator is slow
        SCOPED_TRACE(named(n, among) + " in chunks of " + std::to_string(length));
        const auto values = some_values(n, among);
        const Chunks chunks{.n = n, .length = length};
        std::vector<float> due(chunks.count());
        for (std::size_t i = 0; i < due.size(); ++i)
          due[i] = compressors::sum_of_magnitudes(chunk_of(values, chunks, i));
        const Array<float> sums(due.size());
        sum_magnitudes(Array<float>(values, n % 4).data(), chunks, sums.data(), nullptr).value();
        ASSERT_TRUE(same_bits(sums.read(), due));
      }
    }
  }
}

TEST(CudaChunks, ChosenAreTakenAsTheyAre) {
  for (const std::size_t n : sizes) {
    for (const Among among : all_kinds) {
      for (const std::uint64_t length : lengths) {
        if (n / length > 1000) continue;  // the emulator is slow
        SCOPED_TRACE(named(n, among) + " in chunks of " + std::to_string(length));
        const auto values = some_values(n, among);
        const Chunks chunks{.n = n, .length = length};
        const auto chosen = some_chunks(chunks);
        std::vector<float> due;
        for (const std::uint32_t i : chosen) {
          const auto chunk = chunk_of(values, chunks, i);
          due.insert(due.end(), chunk.begin(), chunk.end());
        }
        const Array<std::uint32_t> numbers(chosen);
        const Array<std::byte> taken(due.size() * sizeof(float), n % 5);
        const Reported report;
        const Array<float> x(values, n % 4);
        take_chunks(x.data(), chunks, numbers.data(), chosen.size(), taken.data(), report.at(), nullptr).value();
        const auto bytes = std::as_bytes(std::span(due));
        ASSERT_TRUE(same_bits(taken.read(), std::vector<std::byte>(bytes.begin(), bytes.end())));
        ASSERT_EQ(report.read().largest < magnitude_infinite, compressors::all_finite(due));
      }
    }
  }
}

}  // namespace
}  // namespace weir::cuda
