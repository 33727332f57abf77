#include "cuda/kernels/trits.hpp"

#include <algorithm>
#include <utility>

#include "compressors/kernels/arithmetic.hpp"
#include "compressors/kernels/quantization/quantize.hpp"
#include "compressors/kernels/random/random.hpp"
#include "tests/cuda/kernels/support.hpp"

namespace weir::cuda {
namespace {

const compressors::RandomKey due_key = {.seed = 5, .step = 77, .tensor = 3, .stream = 2};
const RandomKey key = {.seed = 5, .step = 77, .tensor = 3, .stream = 2};

compressors::Size due_size(std::span<const float> values) {
  std::vector<compressors::Size> parts;
  for (std::size_t start = 0; start < values.size(); start += 4096) {
    parts.push_back(compressors::size_of(values.subspan(start, std::min<std::size_t>(4096, values.size() - start))));
  }
  return compressors::sum_of_sizes(parts);
}

/// A tensor, and what finding its size needs.
struct Sized {
  explicit Sized(std::vector<float> of) : values(std::move(of)), x(values, values.size() % 4) {}
  std::vector<float> values;
  Array<float> x;
  Array<Size> parts{size_parts(values.size())};
};

std::size_t code_bytes(std::size_t n) {
  using compressors::trit_block;
  return 4 + n / trit_block * compressors::trit_bytes(trit_block) + compressors::trit_bytes(n % trit_block);
}

/// Calls body(entries, bytes) for each block of a code.
template <class Value, class Byte, class Body>
void for_blocks(std::span<Value> values, std::span<Byte> code, const Body& body) {
  for (std::size_t start = 0; start < values.size(); start += compressors::trit_block) {
    const auto part = values.subspan(start, std::min(compressors::trit_block, values.size() - start));
    body(start, part, code.subspan(4 + start / 5, compressors::trit_bytes(part.size())));
  }
}

/// As TernGrad::write().
void due_trits(std::span<const float> values, const TritScale& scale, std::span<std::byte> code) {
  std::memcpy(code.data(), &scale.scale, sizeof(float));
  std::vector<std::uint32_t> words(values.size());
  compressors::fill_random(due_key, 0, words);
  for_blocks(values, code, [&](std::size_t start, std::span<const float> part, std::span<std::byte> bytes) {
    compressors::write_trits(part, std::span(words).subspan(start, part.size()), scale.limit,
                             scale.scale > 0 ? scale.scale : 1, bytes);
  });
}

TEST(CudaTrits, SizeIsThatOfTheTwin) {
  for (const std::size_t n : {sizes[0], sizes[1], sizes[4], sizes[7], sizes[10], sizes[11], std::size_t{700'001}}) {
    for (const Among among : all_kinds) {
      if (n > 100'003 && among != Among::nothing) continue;
      SCOPED_TRACE(named(n, among));
      const auto values = some_values(n, among);
      const compressors::Size due = due_size(values);
      const Array<Size> parts(size_parts(n));
      const Array<Size> size(1);
      const Array<float> x(values, n % 4);
      find_sizes(one(SizeToFind{x.data(), n, parts.data(), size.data()}), nullptr).value();
      ASSERT_EQ(size.read()[0].magnitude, due.magnitude);
      if (due.magnitude >= magnitude_infinite) continue;
      ASSERT_EQ(size.read()[0].squares, due.squares);
    }
  }
}

TEST(CudaTrits, SquaresOfManyTensorsAreThoseOfSumOfSquares) {
  std::vector<std::size_t> all(60, 3);  // with the others, more than one launch takes
  all.insert(all.end(), sizes.begin(), sizes.end());
  all.push_back(2 * 64 * 4096 + 5000);
  const Array<Size> places(all.size());
  std::vector<Sized> tensors;
  std::vector<SizeToFind> given;
  std::vector<double> due;
  tensors.reserve(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Sized& it = tensors.emplace_back(some_values(all[i], all_kinds[i % all_kinds.size()]));
    given.push_back({it.x.data(), all[i], it.parts.data(), places.data() + i});
    due.push_back(compressors::sum_of_squares(it.values));
  }
  find_sizes(given, nullptr).value();
  std::vector<double> found;
  for (const Size& size : places.read()) found.push_back(size.squares);
  EXPECT_TRUE(same_bits(found, due));
}

TEST(CudaTrits, CodeIsThatOfTheTwin) {
  for (const std::size_t n : {std::size_t{319}, std::size_t{320}, std::size_t{321}, std::size_t{1603}, sizes[0],
                              sizes[1], sizes[4], sizes[7], sizes[9], sizes[11]}) {
    for (const Among among : {Among::nothing, Among::zeros, Among::only_zeros, Among::extremes}) {
      SCOPED_TRACE(named(n, among));
      const auto values = some_values(n, among);
      const auto largest = std::bit_cast<float>(due_size(values).magnitude);
      const TritScale scale = {.limit = 0.7F * largest, .scale = largest};
      std::vector<std::byte> due(n == 0 ? 0 : code_bytes(n));
      if (n > 0) due_trits(values, scale, due);
      const Array<std::byte> code(due.size(), n % 9);
      if (n == 0) continue;
      const Array<float> x(values, n % 4);
      write_trits(one(TritsToWrite{x.data(), n, key, scale, code.data()}), nullptr).value();
      ASSERT_TRUE(same_bits(code.read(), due));
      auto due_sum = some_values(n, Among::nothing, 2);
      const Array<float> sum(due_sum, n % 3);
      for_blocks(std::span<float>(due_sum), std::span<const std::byte>(due),
                 [&](std::size_t, std::span<float> part, std::span<const std::byte> bytes) {
                   compressors::add_trits(bytes, 0.7F * largest, part);
                 });
      add_trits(one(CodeToAdd{code.data(), n, 0.7F, sum.data()}), nullptr).value();
      ASSERT_TRUE(same_bits(sum.read(), due_sum));
    }
  }
}

TEST(CudaTrits, ChancesNextToTheRandomNumbersAreThoseOfTheTwin) {
  const std::size_t n = 3'000;
  std::vector<std::uint32_t> words(n);
  compressors::fill_random(due_key, 0, words);
  for (const float scale : {1.0F, 0.3F, 0x1p-110F, 0x1p120F}) {
    std::vector<float> values(n);
    for (std::size_t i = 0; i < n; ++i) {
      const auto number = static_cast<float>((words[i] >> 8) + i % 5) - 2;
      values[i] = (i % 2 == 0 ? scale : -scale) * (number * 0x1p-24F);
    }
    const TritScale given = {.limit = scale, .scale = scale};
    std::vector<std::byte> due(code_bytes(n));
    due_trits(values, given, due);
    const Array<std::byte> code(due.size());
    const Array<float> x(values);
    write_trits(one(TritsToWrite{x.data(), n, key, given, code.data()}), nullptr).value();
    EXPECT_TRUE(same_bits(code.read(), due)) << scale;
  }
}

}  // namespace
}  // namespace weir::cuda
