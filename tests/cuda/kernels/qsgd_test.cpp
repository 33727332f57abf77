#include "cuda/kernels/qsgd.hpp"

#include <algorithm>

#include "compressors/kernels/pack.hpp"
#include "compressors/kernels/quantization/quantize.hpp"
#include "compressors/kernels/quantization/signs.hpp"
#include "compressors/kernels/random/random.hpp"
#include "tests/cuda/kernels/support.hpp"

namespace weir::cuda {
namespace {

const compressors::RandomKey due_key = {.seed = 5, .step = 77, .tensor = 3, .stream = 2};
const RandomKey key = {.seed = 5, .step = 77, .tensor = 3, .stream = 2};

std::size_t bucket_bytes(std::size_t entries, unsigned bits) {
  return 4 + compressors::packed_bytes(entries, bits) + compressors::sign_bytes(entries);
}

std::size_t code_bytes(std::size_t n, unsigned bits, std::size_t bucket) {
  return n / bucket * bucket_bytes(bucket, bits) + (n % bucket > 0 ? bucket_bytes(n % bucket, bits) : 0);
}

/// As Qsgd::write(); false if a value is not finite.
bool due_levels(std::span<const float> values, unsigned bits, std::size_t bucket, std::span<std::byte> code) {
  std::vector<std::uint32_t> words(values.size());
  compressors::fill_random(due_key, 0, words);
  for (std::size_t start = 0; start < values.size(); start += bucket) {
    const auto part = values.subspan(start, std::min(bucket, values.size() - start));
    const auto to = code.subspan(start / bucket * bucket_bytes(bucket, bits), bucket_bytes(part.size(), bits));
    const compressors::Size size = compressors::size_of(part);
    if (size.magnitude >= magnitude_infinite) return false;
    const float norm = compressors::norm_of(size.squares);
    std::memcpy(to.data(), &norm, sizeof norm);
    std::vector<std::uint8_t> levels(part.size());
    if (norm > 0) {
      compressors::write_levels(part, std::span(words).subspan(start, part.size()), norm, (1U << bits) - 1, levels);
    }
    const std::size_t packed = compressors::packed_bytes(part.size(), bits);
    compressors::pack(levels, bits, to.subspan(4, packed));
    compressors::write_signs(part, to.subspan(4 + packed));
  }
  return true;
}

/// As Qsgd::read_add().
void due_add(std::span<const std::byte> code, unsigned bits, std::size_t bucket, float weight, std::span<float> sum) {
  for (std::size_t start = 0; start < sum.size(); start += bucket) {
    const auto part = sum.subspan(start, std::min(bucket, sum.size() - start));
    const auto from = code.subspan(start / bucket * bucket_bytes(bucket, bits), bucket_bytes(part.size(), bits));
    float norm;
    std::memcpy(&norm, from.data(), sizeof norm);
    std::vector<std::uint8_t> levels(part.size());
    const std::size_t packed = compressors::packed_bytes(part.size(), bits);
    compressors::unpack(from.subspan(4, packed), bits, levels);
    compressors::add_levels(levels, from.subspan(4 + packed), norm, (1U << bits) - 1, weight, part);
  }
}

void compare(const std::vector<float>& values, unsigned bits, std::size_t bucket) {
  const std::size_t n = values.size();
  std::vector<std::byte> due(code_bytes(n, bits, bucket));
  const bool finite = due_levels(values, bits, bucket, due);
  const Array<std::byte> code(due.size(), n % 9);
  const Reported report;
  const Array<float> x(values, n % 4);
  write_levels(one(CodeToWrite{x.data(), n, key, code.data(), report.at()}), bits, bucket, nullptr).value();
  ASSERT_EQ(report.read().largest < magnitude_infinite, finite);
  if (!finite) return;
  ASSERT_TRUE(same_bits(code.read(), due));
  auto due_sum = some_values(n, Among::nothing, 2);
  const Array<float> sum(due_sum, n % 3);
  due_add(due, bits, bucket, 0.7F, due_sum);
  add_levels(one(CodeToAdd{code.data(), n, 0.7F, sum.data()}), bits, bucket, nullptr).value();
  ASSERT_TRUE(same_bits(sum.read(), due_sum));
}

TEST(CudaQsgd, CodeIsThatOfTheTwin) {
  for (const std::size_t n : sizes) {
    for (const Among among : all_kinds) {
      SCOPED_TRACE(named(n, among));
      compare(some_values(n, among), 4, 512);
    }
  }
}

TEST(CudaQsgd, AnyBitsAndBucket) {
  for (unsigned bits = 1; bits <= 8; ++bits) {
    for (const std::size_t bucket : {64, 320, 8192}) {
      SCOPED_TRACE(std::to_string(bits) + " bits in buckets of " + std::to_string(bucket));
      compare(some_values(9'003, Among::zeros), bits, bucket);
    }
  }
}

TEST(CudaQsgd, NormsOfAnySize) {
  for (const float factor : {0x1p-140F, 0x1p-101F, 0x1p-60F, 0x1p90F, 0x1p110F}) {
    auto values = some_values(4'352, Among::zeros);
    for (float& value : values) value *= factor;
    SCOPED_TRACE(factor);
    compare(values, 4, 512);
  }
}

TEST(CudaQsgd, LevelsThatAreWhole) {
  // The norm of each bucket is 8, so that no random number may raise a level of 16 of the 64 entries.
  std::vector<float> values(64 * 40);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 4 == 0 ? (i % 8 == 0 ? 2.0F : -2.0F) : 0;
  for (const unsigned bits : {1U, 2U, 8U}) {
    SCOPED_TRACE(bits);
    compare(values, bits, 64);
  }
}

TEST(CudaQsgd, EachOfManyTensorsIsCodedAndAdded) {
  struct Tensor {
    explicit Tensor(std::size_t n)
        : values(some_values(n, Among::zeros)), x(values, n % 4), code(code_bytes(n, 4, 512), n % 9), sum(values) {}
    std::vector<float> values;
    Array<float> x;
    Array<std::byte> code;
    Array<float> sum;
    Reported report;
  };
  // More than one launch takes, some without entries and some of several blocks.
  std::vector<std::size_t> many(60, 1000);
  many.insert(many.begin() + 20, {0, 100'003, 512, 1, 0, 70'000});
  std::vector<Tensor> tensors;
  tensors.reserve(many.size());
  std::vector<CodeToWrite> to_write;
  std::vector<CodeToAdd> to_add;
  for (const std::size_t n : many) {
    Tensor& it = tensors.emplace_back(n);
    to_write.push_back({it.x.data(), n, key, it.code.data(), it.report.at()});
    to_add.push_back({it.code.data(), n, 0.7F, it.sum.data()});
  }
  write_levels(to_write, 4, 512, nullptr).value();
  add_levels(to_add, 4, 512, nullptr).value();
  for (const Tensor& it : tensors) {
    SCOPED_TRACE(it.values.size());
    std::vector<std::byte> due(code_bytes(it.values.size(), 4, 512));
    ASSERT_TRUE(due_levels(it.values, 4, 512, due));
    ASSERT_TRUE(same_bits(it.code.read(), due));
    auto due_sum = it.values;
    due_add(due, 4, 512, 0.7F, due_sum);
    ASSERT_TRUE(same_bits(it.sum.read(), due_sum));
  }
}

}  // namespace
}  // namespace weir::cuda
