#include "compressors/device/products.hpp"

#include "compressors/device/launching.hpp"
#include "cuda/kernels/low_rank.hpp"

namespace weir::compressors::device {
namespace {

/// Has `product(matrix, shape, factor, rank, result, stream)` compute `result`, which has its size already.
template <class Product>
Result<void> compute(const at::Tensor& matrix, MatrixShape shape, std::span<const float> factor, std::size_t rank,
                     std::vector<float>& result, const Product& product) {
  const std::size_t bytes = result.size() * sizeof(float);
  const at::Tensor above = bring_up(factor, matrix);
  const at::Tensor computed = scratch(matrix, bytes);
  auto done = product(place<float>(matrix), cuda::MatrixShape{shape.rows, shape.columns}, place<float>(above), rank,
                      place<float>(computed), current_handle(matrix));
  if (!done || bytes == 0) return done;
  const at::Tensor below = fetch(computed, bytes);
  wait(matrix);
  std::memcpy(result.data(), below.data_ptr(), bytes);
  return {};
}

}  // namespace

Result<void> multiply(const at::Tensor& matrix, MatrixShape shape, std::span<const float> right, std::size_t rank,
                      std::vector<float>& left) {
  left.resize(rank * shape.rows);
  return compute(matrix, shape, right, rank, left, cuda::multiply);
}

Result<void> multiply_transposed(const at::Tensor& matrix, MatrixShape shape, std::span<const float> left,
                                 std::size_t rank, std::vector<float>& right) {
  right.resize(rank * shape.columns);
  return compute(matrix, shape, left, rank, right, cuda::multiply_transposed);
}

Result<void> add_outer_products(std::span<const float> left, std::span<const float> right, std::size_t rank,
                                MatrixShape shape, float weight, at::Tensor& sum) {
  const at::Tensor left_above = bring_up(left, sum);
  const at::Tensor right_above = bring_up(right, sum);
  return cuda::add_outer_products(place<float>(left_above), place<float>(right_above), rank,
                                  cuda::MatrixShape{shape.rows, shape.columns}, weight, place<float>(sum),
                                  current_handle(sum));
}

}  // namespace weir::compressors::device
