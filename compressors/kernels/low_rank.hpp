#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weir::compressors {

// Products of a row-major matrix with a few vectors. Factors of rank r are r vectors one behind the other, each as long
// as the matrix has rows (left) or columns (right). Every entry of a result is summed in one fixed order, so that
// ranges can be computed apart.

struct MatrixShape {
  std::size_t rows = 0;
  std::size_t columns = 0;
};

/// left[j][i] = <row i of matrix, right[j]> for the rows [first, last). NaN or infinity in a row shows in its results.
void multiply(const float* matrix, MatrixShape shape, std::size_t first, std::size_t last, const float* right,
              std::size_t rank, float* left);

/// right[j][k] = sum over the rows i of left[j][i] * matrix[i][k], for the columns [first, last). NaN or infinity in a
/// column shows in its results.
void multiply_transposed(const float* matrix, MatrixShape shape, std::size_t first, std::size_t last, const float* left,
                         std::size_t rank, float* right);

/// sum[i][k] += weight * (left[0][i] * right[0][k] + left[1][i] * right[1][k] + ...) for the rows [first, last).
void add_outer_products(const float* left, const float* right, std::size_t rank, MatrixShape shape, std::size_t first,
                        std::size_t last, float weight, float* sum);

/// Makes `rank` vectors of `length` orthonormal, one after the other (modified Gram-Schmidt, each twice, in double
/// precision). A vector that depends on those before it becomes zero.
void orthonormalise(std::span<float> vectors, std::size_t rank);

/// Scales each of `rank` vectors to norm 1, whatever finite norm it has; zero stays zero.
void normalise(std::span<float> vectors, std::size_t rank);

/// The largest magnitude() of the values; 0 of none.
std::uint32_t largest_magnitude(std::span<const float> values);

/// Whether no entry of the outer products can leave the range of float: sum over j of max|left[j]| * max|right[j]|.
/// False too if a value is NaN or infinite.
bool outer_products_are_finite(std::span<const float> left, std::span<const float> right, std::size_t rank);

}  // namespace weir::compressors
