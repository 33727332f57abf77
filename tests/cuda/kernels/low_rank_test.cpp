#include "cuda/kernels/low_rank.hpp"

#include "compressors/kernels/linear_algebra/low_rank.hpp"
#include "tests/cuda/kernels/support.hpp"

namespace weir::cuda {
namespace {

constexpr std::array<MatrixShape, 10> shapes = {
    {{1, 1}, {3, 15}, {17, 16}, {5, 33}, {1, 1025}, {260, 1}, {130, 257}, {512, 31}, {0, 4}, {4, 0}}};
constexpr std::array<std::size_t, 5> ranks = {0, 1, 2, 4, 9};

/// Calls check(matrix, shape, left, right, rank) with values of each kind.
template <class Check>
void for_each_case(const Check& check) {
  for (const MatrixShape& shape : shapes) {
    for (const std::size_t rank : ranks) {
      for (const Among among : all_kinds) {
        SCOPED_TRACE(std::to_string(shape.rows) + " x " + std::to_string(shape.columns) + " with " +
                     std::to_string(rank) + ", " + named(shape.rows * shape.columns, among));
        check(some_values(shape.rows * shape.columns, among), shape, some_values(shape.rows * rank, Among::zeros, 2),
              some_values(shape.columns * rank, Among::zeros, 3), rank);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(CudaLowRank, ProductsAreThoseOfTheTwin) {
  for_each_case([](const auto& matrix, const MatrixShape& shape, const auto&, const auto& right, std::size_t rank) {
    std::vector<float> due(shape.rows * rank);
    compressors::multiply(matrix.data(), {shape.rows, shape.columns}, 0, shape.rows, right.data(), rank, due.data());
    const Array<float> left(due.size(), 1);
    multiply(Array<float>(matrix, 3).data(), shape, Array<float>(right, 1).data(), rank, left.data(), nullptr).value();
    ASSERT_TRUE(same_bits(left.read(), due));
  });
}

TEST(CudaLowRank, SoAreThoseOfManyRows) {
  constexpr MatrixShape shape{8195, 131};
  constexpr std::size_t rank = 5;
  const auto matrix = some_values(shape.rows * shape.columns, Among::extremes);
  const auto right = some_values(shape.columns * rank, Among::zeros, 3);
  std::vector<float> due(shape.rows * rank);
  compressors::multiply(matrix.data(), {shape.rows, shape.columns}, 0, shape.rows, right.data(), rank, due.data());
  const Array<float> left(due.size(), 1);
  multiply(Array<float>(matrix, 3).data(), shape, Array<float>(right, 1).data(), rank, left.data(), nullptr).value();
  EXPECT_TRUE(same_bits(left.read(), due));
}

TEST(CudaLowRank, ProductsWithTheTransposedAreThoseOfTheTwin) {
  for_each_case([](const auto& matrix, const MatrixShape& shape, const auto& left, const auto&, std::size_t rank) {
    std::vector<float> due(shape.columns * rank);
    compressors::multiply_transposed(matrix.data(), {shape.rows, shape.columns}, 0, shape.columns, left.data(), rank,
                                     due.data());
    const Array<float> right(due.size(), 1);
    multiply_transposed(Array<float>(matrix, 3).data(), shape, Array<float>(left, 2).data(), rank, right.data(),
                        nullptr)
        .value();
    ASSERT_TRUE(same_bits(right.read(), due));
  });
}

TEST(CudaLowRank, SumsOfOuterProductsAreThoseOfTheTwin) {
  for_each_case(
      [](const auto& matrix, const MatrixShape& shape, const auto& left, const auto& right, std::size_t rank) {
        auto due = matrix;
        compressors::add_outer_products(left.data(), right.data(), rank, {shape.rows, shape.columns}, 0, shape.rows,
                                        0.7F, due.data());
        const Array<float> sum(matrix, 3);
        add_outer_products(Array<float>(left, 1).data(), Array<float>(right, 2).data(), rank, shape, 0.7F, sum.data(),
                           nullptr)
            .value();
        ASSERT_TRUE(same_bits(sum.read(), due));
      });
}

}  // namespace
}  // namespace weir::cuda
