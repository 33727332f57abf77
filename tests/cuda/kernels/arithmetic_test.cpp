#include "cuda/kernels/arithmetic.hpp"

#include "compressors/kernels/arithmetic.hpp"
#include "compressors/kernels/selection/selection.hpp"
#include "tests/cuda/kernels/support.hpp"

namespace weir::cuda {
namespace {

/// The values, with one NaN for all: which one an operation makes is the processor's choice.
std::vector<float> with_one_nan(std::vector<float> values) {
  for (float& value : values) {
    if (std::isnan(value)) value = std::numeric_limits<float>::quiet_NaN();
  }
  return values;
}

testing::AssertionResult same_numbers(const std::vector<float>& found, const std::vector<float>& due) {
  return same_bits(with_one_nan(found), with_one_nan(due));
}

std::vector<std::uint32_t> bins_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> counts(Bins::size);
  for (const float value : values) ++counts[compressors::magnitude(value) >> 20];
  return counts;
}

std::vector<std::uint32_t> counts_in(const Array<Bins>& bins) {
  const Bins read = bins.read()[0];
  return {std::begin(read.counts), std::end(read.counts)};
}

template <class Check>
void for_all(const Check& check) {
  for (const std::size_t n : sizes) {
    for (const Among among : all_kinds) {
      SCOPED_TRACE(named(n, among));
      check(n, among);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(CudaArithmetic, CopyScaledIsItsTwin) {
  for_all([](std::size_t n, Among among) {
    const auto values = some_values(n, among);
    std::vector<float> due(n);
    const bool finite = compressors::copy_scaled(0.3F, values, due);
    const Array<float> from(values, n % 4);
    const Array<float> to(n, n % 3);
    const Reported report;
    copy_scaled(0.3F, from.data(), to.data(), n, report.at(), nullptr).value();
    ASSERT_TRUE(same_numbers(to.read(), due));
    ASSERT_EQ(report.read().largest < magnitude_infinite, finite);
  });
}

TEST(CudaArithmetic, AddScaledIsItsTwinFromAnyAddress) {
  for_all([](std::size_t n, Among among) {
    const auto values = some_values(n, among);
    const auto bytes = std::as_bytes(std::span(values));
    for (const std::size_t skew : {0, 1, 4, 7}) {
      auto due = some_values(n, Among::zeros, 2);
      const Array<float> to(due, n % 3);
      compressors::add_scaled(-0.7F, bytes, due);
      const Array<std::byte> from(bytes, skew);
      add_scaled(-0.7F, from.data(), to.data(), n, nullptr).value();
      ASSERT_TRUE(same_numbers(to.read(), due)) << skew;
    }
  });
}

TEST(CudaArithmetic, ResidualIsThatOfTheTwinAndCounted) {
  for_all([](std::size_t n, Among among) {
    const auto gradient = some_values(n, among);
    auto due = some_values(n, Among::extremes, 2);
    const Array<float> g(gradient, n % 4);
    const Array<float> r(due, n % 3);
    const Array<float> alone(due);
    compressors::accumulate_residual(0.9F, 0.3F, gradient, due);
    const Array<Bins> bins{std::vector<Bins>(1)};
    ResidualOf it{0.9F, 0.3F, g.data(), r.data(), n, bins.data()};
    accumulate_residual(std::span(&it, 1), nullptr).value();
    ASSERT_TRUE(same_numbers(r.read(), due));
    ASSERT_TRUE(same_bits(counts_in(bins), bins_of(r.read())));
    it.residual = alone.data();
    it.bins = nullptr;
    accumulate_residual(std::span(&it, 1), nullptr).value();
    ASSERT_TRUE(same_numbers(alone.read(), due));
  });
}

TEST(CudaArithmetic, DifferenceIsThatOfTheTwin) {
  for_all([](std::size_t n, Among among) {
    const auto a = some_values(n, among);
    const auto b = some_values(n, Among::extremes, 2);
    std::vector<float> due(n);
    compressors::subtract(a, b, due);
    const Array<float> difference(n, n % 3);
    subtract(Array<float>(a, n % 4).data(), Array<float>(b).data(), difference.data(), n, nullptr).value();
    ASSERT_TRUE(same_numbers(difference.read(), due));
  });
}

TEST(CudaArithmetic, MomentumIsThatOfTheTwinAndCounted) {
  for (const bool nesterov : {false, true}) {
    const compressors::MomentumStep due_step{.mu = 0.9F, .scale = 0.7F, .nesterov = nesterov};
    const MomentumStep step{.mu = 0.9F, .scale = 0.7F, .nesterov = nesterov};
    for_all([&](std::size_t n, Among among) {
      const auto gradient = some_values(n, among);
      auto due_m = some_values(n, Among::zeros, 2);
      auto due_v = some_values(n, Among::extremes, 3);
      const Array<float> g(gradient, n % 4);
      const Array<float> m(due_m, n % 3);
      const Array<float> v(due_v, n % 2);
      std::vector<float> peaks(compressors::peaks_of(n));
      compressors::accumulate_momentum(due_step, gradient, due_m, due_v, peaks);
      const Array<Bins> bins{std::vector<Bins>(1)};
      const MomentumOf it{step, g.data(), m.data(), v.data(), n, bins.data()};
      accumulate_momentum(std::span(&it, 1), nullptr).value();
      ASSERT_TRUE(same_numbers(m.read(), due_m));
      ASSERT_TRUE(same_numbers(v.read(), due_v));
      ASSERT_TRUE(same_bits(counts_in(bins), bins_of(v.read())));
    });
  }
}

/// More tensors than one launch takes, some of them empty and some of several tiles.
std::vector<std::size_t> many_sizes() {
  std::vector<std::size_t> many;
  for (std::size_t i = 0; i < 3; ++i) many.insert(many.end(), 25, i);
  many.insert(many.end(), {0, 5000, 2048, 2049, 1, 20'000, 0, 2047});
  return many;
}

TEST(CudaArithmetic, EachOfManyTensorsGetsItsMomentumAndItsCounts) {
  const compressors::MomentumStep due_step{.mu = 0.9F, .scale = 0.7F};
  struct Tensor {
    explicit Tensor(std::size_t n)
        : due_m(some_values(n, Among::zeros, 2)),
          due_v(some_values(n, Among::extremes, 3)),
          g(some_values(n, Among::nothing)),
          m(due_m, n % 3),
          v(due_v, n % 2) {}
    std::vector<float> due_m;
    std::vector<float> due_v;
    Array<float> g;
    Array<float> m;
    Array<float> v;
    Array<Bins> bins{std::vector<Bins>(1)};
  };
  const auto all = many_sizes();
  std::vector<Tensor> tensors;
  std::vector<MomentumOf> given;
  tensors.reserve(all.size());
  for (const std::size_t n : all) {
    Tensor& it = tensors.emplace_back(n);
    given.push_back({{.mu = 0.9F, .scale = 0.7F}, it.g.data(), it.m.data(), it.v.data(), n, it.bins.data()});
  }
  accumulate_momentum(given, nullptr).value();
  for (Tensor& it : tensors) {
    SCOPED_TRACE(it.due_m.size());
    std::vector<float> peaks(compressors::peaks_of(it.due_m.size()));
    compressors::accumulate_momentum(due_step, it.g.read(), it.due_m, it.due_v, peaks);
    ASSERT_TRUE(same_numbers(it.m.read(), it.due_m));
    ASSERT_TRUE(same_numbers(it.v.read(), it.due_v));
    ASSERT_TRUE(same_bits(counts_in(it.bins), bins_of(it.v.read())));
  }
}

TEST(CudaArithmetic, AppliedMomentumIsThatOfTheTwin) {
  for (const bool nesterov : {false, true}) {
    const compressors::MomentumStep due_step{.mu = 0.9F, .scale = 0.7F, .nesterov = nesterov};
    for_all([&](std::size_t n, Among among) {
      auto due_g = some_values(n, among);
      auto due_m = some_values(n, Among::extremes, 2);
      const Array<float> g(due_g, n % 4);
      const Array<float> m(due_m, n % 3);
      compressors::apply_momentum(due_step, due_g, due_m);
      const MomentumAppliedTo it{{.mu = 0.9F, .scale = 0.7F, .nesterov = nesterov}, g.data(), m.data(), n};
      apply_momentum(std::span(&it, 1), nullptr).value();
      ASSERT_TRUE(same_numbers(g.read(), due_g));
      ASSERT_TRUE(same_numbers(m.read(), due_m));
    });
  }
}

TEST(CudaArithmetic, EachOfManyTensorsGetsItsAppliedMomentum) {
  struct Tensor {
    explicit Tensor(std::size_t n)
        : step{.mu = 0.9F, .scale = 1 / static_cast<float>(n + 1), .nesterov = n % 2 == 0},
          due_g(some_values(n, Among::zeros)),
          due_m(some_values(n, Among::extremes, 2)),
          g(due_g, n % 4),
          m(due_m, n % 3) {}
    compressors::MomentumStep step;
    std::vector<float> due_g;
    std::vector<float> due_m;
    Array<float> g;
    Array<float> m;
  };
  const auto all = many_sizes();
  std::vector<Tensor> tensors;
  std::vector<MomentumAppliedTo> given;
  tensors.reserve(all.size());
  for (const std::size_t n : all) {
    Tensor& it = tensors.emplace_back(n);
    given.push_back({{it.step.mu, it.step.scale, it.step.nesterov}, it.g.data(), it.m.data(), n});
  }
  apply_momentum(given, nullptr).value();
  for (Tensor& it : tensors) {
    SCOPED_TRACE(it.due_g.size());
    compressors::apply_momentum(it.step, it.due_g, it.due_m);
    ASSERT_TRUE(same_numbers(it.g.read(), it.due_g));
    ASSERT_TRUE(same_numbers(it.m.read(), it.due_m));
  }
}

}  // namespace
}  // namespace weir::cuda
