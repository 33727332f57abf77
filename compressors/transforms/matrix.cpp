#include "compressors/transforms/matrix.hpp"

#include "compressors/device/products.hpp"
#include "compressors/flat.hpp"
#include "compressors/parallel_loops.hpp"

namespace weir::compressors {

MatrixShape matrix_shape(at::IntArrayRef sizes) {
  const std::size_t entries = entries_of(sizes);
  const std::size_t rows = sizes.size() > 1 ? static_cast<std::size_t>(sizes[0]) : 1;
  return {rows, rows == 0 ? 0 : entries / rows};
}

Result<void> multiply(const at::Tensor& matrix, MatrixShape shape, std::span<const float> right, std::size_t rank,
                      std::vector<float>& left) {
  if (!matrix.is_cpu()) return device::multiply(matrix, shape, right, rank, left);
  const std::span<const float> entries = flat(matrix);
  left.resize(rank * shape.rows);
  parallel_for_ranges(entries.size(), shape.columns, [&](std::size_t begin, std::size_t end) {
    multiply(entries.data(), shape, begin / shape.columns, end / shape.columns, right.data(), rank, left.data());
  });
  return {};
}

Result<void> multiply_transposed(const at::Tensor& matrix, MatrixShape shape, std::span<const float> left,
                                 std::size_t rank, std::vector<float>& right) {
  if (!matrix.is_cpu()) return device::multiply_transposed(matrix, shape, left, rank, right);
  constexpr std::size_t line = 16;  // the least number of columns per thread
  const std::span<const float> entries = flat(matrix);
  right.resize(rank * shape.columns);
  parallel_for_ranges(entries.size(), shape.rows * line, [&](std::size_t begin, std::size_t end) {
    multiply_transposed(entries.data(), shape, begin / shape.rows, end / shape.rows, left.data(), rank, right.data());
  });
  return {};
}

Result<void> add_outer_products(std::span<const float> left, std::span<const float> right, std::size_t rank,
                                MatrixShape shape, float weight, at::Tensor& sum) {
  if (!sum.is_cpu()) return device::add_outer_products(left, right, rank, shape, weight, sum);
  const std::span<float> entries = flat(sum);
  parallel_for_ranges(entries.size(), shape.columns, [&](std::size_t begin, std::size_t end) {
    add_outer_products(left.data(), right.data(), rank, shape, begin / shape.columns, end / shape.columns, weight,
                       entries.data());
  });
  return {};
}

}  // namespace weir::compressors
