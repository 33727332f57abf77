#include "compressors/transforms/demo.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/errc.hpp"
#include "base/processor.hpp"
#include "compressors/codecs/index_codec.hpp"
#include "compressors/codecs/sparse.hpp"
#include "compressors/codecs/value_codec.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/linear_algebra/cosines.hpp"
#include "compressors/kernels/selection/floor.hpp"
#include "compressors/memories/ef21_memory.hpp"
#include "compressors/memories/residual_memory.hpp"
#include "compressors/transforms/dct.hpp"
#include "support.hpp"

namespace weir::compressors::test {
namespace {

/// The definition, in double precision.
at::Tensor cosine_matrix(std::int64_t n) {
  at::Tensor matrix = at::empty({n, n}, at::kDouble);
  for (std::int64_t k = 0; k < n; ++k) {
    for (std::int64_t i = 0; i < n; ++i) {
      const double angle = std::numbers::pi * static_cast<double>((2 * i + 1) * k) / static_cast<double>(2 * n);
      matrix[k][i] = std::sqrt((k == 0 ? 1.0 : 2.0) / static_cast<double>(n)) * std::cos(angle);
    }
  }
  return matrix;
}

TEST(Cosines, AreTheOrthonormalTransform) {
  for (std::int64_t n = 1; n <= static_cast<std::int64_t>(cosine_side_max); ++n) {
    const at::Tensor expected = cosine_matrix(n).to(at::kFloat).contiguous();
    const at::Tensor got = at::from_blob(const_cast<float*>(cosines(static_cast<std::size_t>(n))), {n, n}, at::kFloat);
    EXPECT_LE((got - expected).abs().max().item<float>(), 6e-8F) << n;
  }
}

at::Tensor transformed(const at::Tensor& x) {
  at::Tensor out = at::empty(x.sizes(), at::kFloat);
  CosineScratch scratch;
  const BlockView block{x.data_ptr<float>(), static_cast<std::size_t>(x.size(1)), static_cast<std::size_t>(x.size(0)),
                        static_cast<std::size_t>(x.size(1))};
  transform_block(block, {}, 1, scratch, out.data_ptr<float>());
  return out;
}

TEST(Cosines, BlocksOfAnySidesGoThereAndBackOnEveryProcessor) {
  for (const std::int64_t rows : {1, 2, 7, 33, 64}) {
    for (const std::int64_t columns : {1, 3, 16, 37, 64}) {
      const at::Tensor x = gaussian(rows * columns, 1).reshape({rows, columns});
      const at::Tensor y = transformed(x);
      const at::Tensor expected = cosine_matrix(rows).mm(x.to(at::kDouble)).mm(cosine_matrix(columns).t());
      EXPECT_LT((y - expected).abs().max().item<double>(), 3e-6) << x.sizes();
      std::vector<std::uint32_t> places(static_cast<std::size_t>(x.numel()));
      for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<std::uint32_t>(i);
      const auto back = [&] {
        at::Tensor sum = at::ones({rows, columns});
        CosineScratch scratch;
        add_inverse_block(places, flat(y), static_cast<std::size_t>(rows), static_cast<std::size_t>(columns), 2,
                          scratch, sum.data_ptr<float>(), static_cast<std::size_t>(columns));
        return sum;
      };
      EXPECT_LT((back() - 1 - x * 2).abs().max().item<double>(), 1e-5) << x.sizes();
      const at::Tensor fast = back();
      const KernelsUpTo portable(Kernels::portable);
      EXPECT_TRUE(same_bits(transformed(x), y));
      EXPECT_TRUE(same_bits(back(), fast));
    }
  }
}

TEST(FloorOfLargest, IsReachedByAsManyAsWantedAndNotByManyMore) {
  for (const at::Tensor& x : {gaussian(4'096, 1), heavy_tailed(4'000, 2), at::ones({1'000}), sparse(2'100, 3)}) {
    for (const std::size_t count : {1, 8, 32, 64}) {
      const auto reaching = [&](std::uint32_t floor) {
        return std::ranges::count_if(flat(x), [&](float value) { return magnitude(value) >= floor; });
      };
      const std::uint32_t floor = floor_of_largest(flat(x), count);
      ASSERT_GT(floor, 0);
      EXPECT_GE(reaching(floor), static_cast<std::ptrdiff_t>(count));
      if (x.numel() > 4'000) {
        EXPECT_LE(reaching(floor), static_cast<std::ptrdiff_t>(3 * count + 10));
      }
      const KernelsUpTo portable(Kernels::portable);
      EXPECT_EQ(floor_of_largest(flat(x), count), floor);
    }
  }
  const at::Tensor more = gaussian(20'000, 4);
  for (const std::size_t count : {65, 300, 1'024}) {
    const std::uint32_t floor = floor_of_largest(flat(std::as_const(more)), count);
    const auto reaching =
        std::ranges::count_if(flat(std::as_const(more)), [&](float value) { return magnitude(value) >= floor; });
    EXPECT_GE(reaching, static_cast<std::ptrdiff_t>(count));
    EXPECT_LE(reaching, static_cast<std::ptrdiff_t>(2 * count));
  }
  EXPECT_EQ(floor_of_largest(flat(std::as_const(more)), 1'025), 0);
  const at::Tensor many = gaussian(4'096, 1);
  const at::Tensor few = gaussian(100, 1);
  EXPECT_EQ(floor_of_largest(flat(std::as_const(many)), 65), 0);
  EXPECT_EQ(floor_of_largest(flat(std::as_const(few)), 3), 0);
}

TEST(BlockGrid, CoversEveryEntryOnceInBlocksOfNearlyEqualSides) {
  for (const auto& [rows, columns] : std::vector<std::pair<std::size_t, std::size_t>>{
           {1, 1}, {1, 1'000}, {128, 64}, {130, 97}, {64, 65}, {5, 1'009}}) {
    const BlockGrid grid({rows, columns}, 64);
    std::vector<int> seen(rows * columns);
    std::size_t position = 0;
    std::size_t shortest = 64;
    for (std::size_t i = 0; i < grid.blocks(); ++i) {
      const BlockGrid::Block block = grid.block(i);
      EXPECT_EQ(block.position, position);
      position += block.entries();
      EXPECT_LE(block.rows, 64);
      EXPECT_LE(block.columns, 64);
      shortest = std::min(shortest, block.columns);
      for (std::size_t r = 0; r < block.rows; ++r) {
        for (std::size_t c = 0; c < block.columns; ++c) ++seen[(block.row + r) * columns + block.column + c];
      }
    }
    EXPECT_EQ(std::ranges::count(seen, 1), static_cast<std::ptrdiff_t>(seen.size()));
    EXPECT_GE(shortest, std::min<std::size_t>(columns, 32)) << "a prime number is no reason for blocks of one";
  }
}

/// Top-k of each block's coefficients and back, with whole-tensor operations in double precision.
at::Tensor reference(const at::Tensor& x, std::int64_t side, std::int64_t kept) {
  at::Tensor out = at::zeros(x.sizes(), at::kDouble);
  for (std::int64_t r = 0; r < x.size(0); r += side) {
    for (std::int64_t c = 0; c < x.size(1); c += side) {
      const at::Tensor rows = cosine_matrix(std::min(side, x.size(0) - r));
      const at::Tensor columns = cosine_matrix(std::min(side, x.size(1) - c));
      const at::Tensor block = x.narrow(0, r, rows.size(0)).narrow(1, c, columns.size(0)).to(at::kDouble);
      const at::Tensor y = rows.mm(block).mm(columns.t());
      const at::Tensor least = std::get<0>(y.abs().flatten().topk(kept)).min();
      out.narrow(0, r, rows.size(0))
          .narrow(1, c, columns.size(0))
          .copy_(rows.t().mm(y * (y.abs() >= least)).mm(columns));
    }
  }
  return out;
}

TEST(Demo, KeepsTheLargestCosinesOfEachBlock) {
  const at::Tensor x = heavy_tailed(128 * 192, 1).reshape({128, 192});
  for (const auto& [side, kept] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{64, 32}, {64, 1}, {16, 8}, {32, 500}}) {
    Demo demo({.chunk = side, .per_chunk = kept});
    const at::Tensor y = decoded(demo, encoded(demo, x, round_at(0)), x, round_at(0));
    EXPECT_LT((y - reference(x, side, kept)).abs().max().item<double>(), 1e-4) << side << ", " << kept;
  }
  const at::Tensor line = gaussian(640, 1);
  Demo demo({.per_chunk = 5});
  const at::Tensor y = decoded(demo, encoded(demo, line, round_at(0)), line, round_at(0));
  for (std::int64_t at = 0; at < 640; at += 64) {
    const at::Tensor part = line.narrow(0, at, 64).reshape({1, 64});
    EXPECT_TRUE(at::allclose(y.narrow(0, at, 64), reference(part, 64, 5).flatten().to(at::kFloat), 1e-4, 1e-5));
  }
}

TEST(Demo, RanksAgreeOnTheSignOfTheMeanOfAll) {
  const std::vector<at::Tensor> xs = {gaussian(900, 1).reshape({30, 30}), gaussian(900, 2).reshape({30, 30}),
                                      gaussian(900, 3).reshape({30, 30})};
  for (const bool sign : {true, false}) {
    Demo demo({.sign = sign});
    at::Tensor mean = at::zeros({30, 30});
    at::Tensor expected = at::zeros({30, 30});
    for (const at::Tensor& x : xs) {
      demo.decode_add(encoded(demo, x, round_at(0)), round_at(0), 1.0F / 3, mean).value();
      expected += reference(x, 64, 32).to(at::kFloat) / 3;
    }
    demo.conclude(mean, round_at(0)).value();
    EXPECT_LT((mean - (sign ? at::sign(expected) : expected)).abs().max().item<float>(), 1e-5F);
  }
  at::Tensor zero = at::zeros({4});
  Demo({}).conclude(zero, round_at(0)).value();
  EXPECT_TRUE(at::equal(zero, at::zeros({4}))) << "nobody sent anything";
}

TEST(Demo, ItsMemoryIsTheDecoupledMomentum) {
  const nlohmann::json none;
  Compression made =
      builtin()
          .make({.compressor = "demo", .params = none, .memory = "", .memory_params = none, .setting = {}})
          .value();
  EXPECT_TRUE(made.compressor->traits().owns_momentum);
  at::Tensor delta = at::zeros({70, 90}, at::kDouble);  // as demo.py names it
  for (std::uint64_t step = 0; step < 6; ++step) {
    Round round = round_at(step);
    round.learning_rate = step < 2 ? 0.5 : step < 4 ? 0.003 : 0.04;
    const at::Tensor gradient = gaussian(70 * 90, step).reshape({70, 90});
    delta = delta * 0.999 + round.learning_rate * gradient;
    const at::Tensor input = made.memory->compensate(gradient, round).value();
    EXPECT_LT((input * round.learning_rate - delta).abs().max().item<double>(), 1e-5) << step;
    const Bytes payload = encoded(*made.compressor, input, round);
    at::Tensor mean = decoded(*made.compressor, payload, gradient, round);
    delta -= round.learning_rate * mean;
    made.compressor->conclude(mean, round).value();
    made.memory->update(round, SentPayload(*made.compressor, payload, round, mean), mean).value();
  }
}

/// What reaches the weights without the sign is the part of the momentum that was sent, once.
TEST(Demo, WithoutTheSignTheWeightsMoveByWhatWasSent) {
  const nlohmann::json params = {{"sign", false}, {"chunk", 8}, {"per_chunk", 64}, {"value_codec", "fp32"}};
  const nlohmann::json none;
  Compression made =
      builtin()
          .make({.compressor = "demo", .params = params, .memory = "", .memory_params = none, .setting = {}})
          .value();
  Round round = round_at(0);
  round.learning_rate = 0.25;
  const at::Tensor gradient = gaussian(64, 3).reshape({8, 8});
  const Bytes payload = encoded(*made.compressor, made.memory->compensate(gradient, round).value(), round);
  at::Tensor mean = decoded(*made.compressor, payload, gradient, round);
  made.compressor->conclude(mean, round).value();
  EXPECT_TRUE(at::allclose(round.learning_rate * mean, 0.25 * gradient, 1e-5, 1e-6)) << "all of lr * g was sent";
}

/// Signs alone: what a rank sent has no size.
class Voter final : public Compressor {
 public:
  std::string_view name() const override { return "voter"; }
  Traits traits() const override { return {.votes = true}; }
  double error_bound(std::uint64_t, const Round&) const override { return std::numeric_limits<double>::infinity(); }

 protected:
  Result<void> do_encode(const at::Tensor&, const Round&, Bytes&) override { return {}; }
  Result<void> do_decode_add(BytesView, const Round&, float, at::Tensor&) override { return {}; }
};

TEST(Demo, VotesThatAreASharesOfAMeanFitAResidual) {
  EXPECT_FALSE(ResidualMemory::misfit(Demo({})));
  EXPECT_THAT(*ResidualMemory::misfit(Voter()), ::testing::HasSubstr("signs"));
  EXPECT_THAT(*Ef21Memory::misfit(Demo({})), ::testing::HasSubstr("signs"));
  EXPECT_FALSE(Ef21Memory::misfit(Demo({.sign = false})));
}

TEST(Demo, CoefficientsThatCouldAddUpToInfinityAreRefused) {
  Demo demo({});
  const at::Tensor huge = at::full({64, 64}, std::numeric_limits<float>::max());
  const at::Tensor y = decoded(demo, encoded(demo, huge, round_at(0)), huge, round_at(0));
  EXPECT_TRUE(at::isfinite(y).all().item<bool>());
  EXPECT_GT(y.min().item<float>(), 0) << "clamped, not turned around";
  Selection hostile;
  hostile.positions = {3};
  hostile.values = {2 * coefficient_max};
  Bytes payload;
  write_sparse(hostile, SparseExtent{Format::dct, 4096, 4096}, choose_index_codec("auto", hostile.positions, 4096),
               fp32_codec, payload);
  at::Tensor sum = at::zeros({64, 64});
  EXPECT_EQ(demo.decode_add(payload, round_at(0), 1, sum).error().code, Errc::malformed);
}

}  // namespace
}  // namespace weir::compressors::test
