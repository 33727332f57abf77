#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "compressors/kernels/linear_algebra/low_rank.hpp"

namespace weir::compressors::device {

// The products of transforms/matrix.hpp of contiguous float32 matrices on a device, in the calling thread's current
// stream (device.hpp): with the bits of those.

/// The factor is brought up, and the result comes down, for which they wait.
Result<void> multiply(const at::Tensor& matrix, MatrixShape shape, std::span<const float> right, std::size_t rank,
                      std::vector<float>& left);
Result<void> multiply_transposed(const at::Tensor& matrix, MatrixShape shape, std::span<const float> left,
                                 std::size_t rank, std::vector<float>& right);

class Download;

/// Products of several matrices, each with its factor, which are begun together and come to the host together.
class Products {
 public:
  struct Of {
    at::Tensor matrix;
    MatrixShape shape;
    std::span<const float> factor;  ///< `right` of multiply(), or `left` of multiply_transposed()
    bool transposed = false;
  };

  /// Brings up the factors, each of `rank` vectors, and puts the products into the stream.
  static Result<Products> begin(std::span<const Of> all, std::size_t rank);
  Products(Products&&) noexcept;
  ~Products();

  /// Waits for the product with matrix number i, which then is in `result`.
  Result<void> read(std::size_t i, std::vector<float>& result) const;

 private:
  explicit Products(std::unique_ptr<Download> down, std::vector<std::size_t> sizes);

  std::unique_ptr<Download> down_;  ///< with a product as each matrix's body
  std::vector<std::size_t> sizes_;  ///< in floats
};

/// Brings both factors up.
Result<void> add_outer_products(std::span<const float> left, std::span<const float> right, std::size_t rank,
                                MatrixShape shape, float weight, at::Tensor& sum);

}  // namespace weir::compressors::device
