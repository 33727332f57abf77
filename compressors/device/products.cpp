#include "compressors/device/products.hpp"

#include <utility>

#include "compressors/device/download.hpp"
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

Products::Products(std::unique_ptr<Download> down, std::vector<std::size_t> sizes)
    : down_(std::move(down)), sizes_(std::move(sizes)) {}
Products::Products(Products&&) noexcept = default;
Products::~Products() = default;

Result<Products> Products::begin(std::span<const Of> all, std::size_t rank) {
  std::vector<BytesView> factors;
  std::vector<std::size_t> sizes;
  std::vector<std::size_t> bytes;
  for (const Of& of : all) {
    factors.push_back(std::as_bytes(of.factor));
    sizes.push_back(rank * (of.transposed ? of.shape.columns : of.shape.rows));
    bytes.push_back(sizes.back() * sizeof(float));
  }
  const at::Tensor& beside = all.front().matrix;
  const RaisedBytes above = bring_up_all(factors, beside);
  auto down = Download::make(beside, /*head_bytes=*/0, bytes);
  if (!down) return down.error();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& [matrix, shape, factor, transposed] = all[i];
    const auto product = transposed ? cuda::multiply_transposed : cuda::multiply;
    auto done = product(place<float>(matrix), {shape.rows, shape.columns}, reinterpret_cast<float*>(above.place(i)),
                        rank, reinterpret_cast<float*>(down->body(i)), current_handle(beside));
    if (!done) return done.error();
  }
  if (auto begun = down->begin(); !begun) return begun.error();
  return Products(std::make_unique<Download>(std::move(*down)), std::move(sizes));
}

Result<void> Products::read(std::size_t i, std::vector<float>& result) const {
  result.resize(sizes_[i]);
  return down_->copy_body(i, std::as_writable_bytes(std::span(result)));
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
