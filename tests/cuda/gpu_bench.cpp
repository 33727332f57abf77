// The speed of each kernel beside that of copies, on a device, as JSON lines:
//
//     gpu_bench [MEBIFLOATS, 64 unless given]
//
// `share` is the bytes that the kernel must move per second over those of our copy kernel. Median of 20 runs.

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/half.hpp"
#include "cuda/event.hpp"
#include "cuda/kernels/clusters.hpp"
#include "cuda/kernels/copy.hpp"
#include "cuda/kernels/cosines.hpp"
#include "cuda/kernels/draw.hpp"
#include "cuda/kernels/finite.hpp"
#include "cuda/kernels/half.hpp"
#include "cuda/kernels/low_rank.hpp"
#include "cuda/kernels/natural.hpp"
#include "cuda/kernels/pack.hpp"
#include "cuda/kernels/qsgd.hpp"
#include "cuda/kernels/quantize.hpp"
#include "cuda/kernels/random.hpp"
#include "cuda/kernels/signs.hpp"
#include "cuda/kernels/trits.hpp"
#include "cuda/memory.hpp"
#include "cuda/stream.hpp"

namespace weir::cuda {
namespace {

using Run = std::function<Result<void>()>;

/// For kernels that take several tensors.
template <class T>
std::span<const T> one(const T& tensor) {
  return {&tensor, 1};
}

/// Median milliseconds of 20 runs, after two.
float measure(const Run& run, StreamHandle stream) {
  constexpr int runs = 20;
  const Event start = Event::make().value();
  const Event end = Event::make().value();
  std::array<float, runs> times;
  for (int i = -2; i < runs; ++i) {
    start.record(stream).value();
    run().value();
    end.record(stream).value();
    end.wait().value();
    if (i >= 0) times[static_cast<std::size_t>(i)] = Event::milliseconds_between(start, end).value();
  }
  std::ranges::sort(times);
  return (times[runs / 2 - 1] + times[runs / 2]) / 2;
}

struct Kernel {
  std::string name;
  double bytes;  ///< to be moved per entry
  Run run;
};

void bench(std::uint64_t n) {
  const Stream of_bench = Stream::make().value();
  const StreamHandle stream = of_bench.handle();
  const Memory values = Memory::allocate(4 * n).value();
  const Memory other = Memory::allocate(4 * n).value();
  const Memory codes = Memory::allocate(2 * n + 4096).value();
  const Memory scratch = Memory::allocate(sign_sum_parts(n) * sizeof(SignSums)).value();
  const Memory small = Memory::allocate(4096).value();
  codes.fill(std::byte{0}, stream).value();
  small.fill(std::byte{0}, stream).value();

  // Ordinary values, made on the host once and repeated.
  std::vector<float> some(std::size_t{1} << 20);
  for (std::size_t i = 0; i < some.size(); ++i)
    some[i] = static_cast<float>((i * 2654435761U) >> 8 & 0xFFFF) - 32767.5F;
  auto* const x = reinterpret_cast<float*>(values.data());
  auto* const sum = reinterpret_cast<float*>(other.data());
  values.copy_from_host(std::as_bytes(std::span(some).first(std::min<std::size_t>(some.size(), n))), stream).value();
  for (std::uint64_t at = some.size(); at < n; at += some.size()) {
    copy(x, std::min<std::uint64_t>(some.size(), n - at), x + at, stream).value();
  }

  auto* const code = codes.data();
  auto* const report = reinterpret_cast<Report*>(small.data());
  auto* const result = small.data() + 256;
  const RandomKey key = {.seed = 1, .step = 2, .tensor = 3, .stream = 4};
  auto* const words = reinterpret_cast<std::uint32_t*>(sum);
  const CodeToWrite to_write{x, n, key, code, report};
  const CodeToAdd to_add{code, n, 1, sum};
  const SignsToWrite signs{
      x, n, code, reinterpret_cast<SignSums*>(scratch.data()), reinterpret_cast<SignSums*>(result), report};
  const RowsToWrite rows{x, 1, n, reinterpret_cast<RowExtremes*>(small.data() + 512), code, report};
  const NaturalToWrite natural{x, n, key, reinterpret_cast<NaturalWindow*>(result), code, report};
  const SizeToFind size{x, n, reinterpret_cast<Size*>(scratch.data()), reinterpret_cast<Size*>(result)};
  const TritsToWrite trits{x, n, key, {.limit = 1e4F, .scale = 32767.5F}, code};
  // A matrix of 4096 columns.
  const MatrixShape matrix{n / 4096, 4096};
  const BlockGrid grid{matrix.rows, matrix.columns, (matrix.rows + 63) / 64, matrix.columns / 64};
  const CosineTables tables{{x, x}, {x, x}};
  const Clusters clusters{.bits = 2, .sizes = {1000, 1000, 1000, 1000}, .tables = {0, 1000, 2000, 3000}};
  auto* const factor = reinterpret_cast<float*>(code);
  auto* const sums = reinterpret_cast<MagnitudeSums*>(scratch.data());
  const std::vector<Kernel> kernels = {
      {"cudaMemcpyAsync", 8, [&] { return other.copy_from(values, stream); }},
      {"copy", 8, [&] { return copy(x, n, sum, stream); }},
      {"find_largest", 4, [&] { return find_largest(x, n, report, stream); }},
      {"fill_random", 4, [&] { return fill_random(key, 0, words, n, stream); }},
      {"write_votes", 4.125, [&] { return write_votes(one(to_write), stream); }},
      {"write_signs", 4.125, [&] { return write_signs(one(signs), stream); }},
      {"add_by_sign", 8.125,
       [&] {
         return add_by_sign(one(SignsToAdd{code, n, 1, -1, sum}), stream);
       }},
      {"take_majority", 8,
       [&] {
         return take_majority(0.5F, one(VotesToCount{key, sum, n}), stream);
       }},
      {"round_to (fp16)", 6, [&] { return round_to(x, n, 0.5F, reinterpret_cast<Half*>(code), report, stream); }},
      {"add_scaled (fp16)", 10,
       [&] { return add_scaled(2, reinterpret_cast<const Half*>(code), n, sum, report, stream); }},
      {"round_to (bf16)", 6, [&] { return round_to(x, n, 0.5F, reinterpret_cast<BFloat16*>(code), report, stream); }},
      {"add_scaled (bf16)", 10,
       [&] { return add_scaled(2, reinterpret_cast<const BFloat16*>(code), n, sum, report, stream); }},
      {"write_int8", 9, [&] { return write_int8(one(rows), stream); }},
      {"add_int8", 9,
       [&] {
         return add_int8(one(RowsToAdd{code, 1, n, 1, sum}), stream);
       }},
      {"write_uint8", 9, [&] { return write_uint8(one(rows), stream); }},
      {"add_uint8", 9,
       [&] {
         return add_uint8(one(RowsToAdd{code, 1, n, 1, sum}), stream);
       }},
      {"write_natural", 5, [&] { return write_natural(one(natural), stream); }},
      {"add_natural", 9, [&] { return add_natural(one(to_add), stream); }},
      {"write_levels (4 bits of 512)", 4.625, [&] { return write_levels(one(to_write), 4, 512, stream); }},
      {"add_levels (4 bits of 512)", 8.625, [&] { return add_levels(one(to_add), 4, 512, stream); }},
      {"find_sizes", 4, [&] { return find_sizes(one(size), stream); }},
      {"write_trits", 4.2, [&] { return write_trits(one(trits), stream); }},
      {"add_trits", 8.2, [&] { return add_trits(one(to_add), stream); }},
      {"multiply (2 vectors)", 4, [&] { return multiply(x, matrix, sum, 2, factor, stream); }},
      {"multiply_transposed (2 vectors)", 4, [&] { return multiply_transposed(x, matrix, sum, 2, factor, stream); }},
      {"add_outer_products (2 vectors)", 8, [&] { return add_outer_products(factor, x, 2, matrix, 1, sum, stream); }},
      {"transform_blocks", 8, [&] { return transform_blocks(x, grid, tables, sum, stream); }},
      {"place_entries (2 bits)", 9,
       [&] { return place_entries(x, n, clusters, code, reinterpret_cast<std::int32_t*>(sum), report, stream); }},
      {"magnitude_sums", 4,
       [&] { return magnitude_sums(x, n, ~0U, sums, reinterpret_cast<MagnitudeSums*>(result), stream); }},
      {"draw_by_magnitude", 8, [&] { return draw_by_magnitude(x, n, key, 1e6F, sum, stream); }},
      {"pack (4 bits)", 1.5, [&] { return pack(values.data(), n, 4, code, stream); }},
  };
  const float copying = measure(kernels[1].run, stream);
  for (const Kernel& kernel : kernels) {
    const float time = measure(kernel.run, stream);
    const double bytes = kernel.bytes * static_cast<double>(n);
    std::printf("{\"kernel\": \"%s\", \"entries\": %llu, \"ms\": %.5f, \"gb_per_s\": %.1f, \"share\": %.3f}\n",
                kernel.name.c_str(), static_cast<unsigned long long>(n), time, bytes / time / 1e6,
                kernel.bytes / 8 * copying / time);
  }
}

}  // namespace
}  // namespace weir::cuda

int main(int argc, char** argv) {
  const std::uint64_t mebi = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 64;
  const auto stream = weir::cuda::Stream::make();
  if (!stream || mebi == 0) {
    std::fprintf(stderr, "gpu_bench: %s\n",
                 stream ? "give a number of mebifloats above 0" : stream.error().message().c_str());
    return 1;
  }
  weir::cuda::bench(mebi << 20);
  return 0;
}
