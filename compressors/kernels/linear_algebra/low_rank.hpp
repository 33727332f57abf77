#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weir::compressors {

// Products of a row-major matrix with a few vectors. A factor of rank r is r vectors stored one after the other; a left
// factor's vectors have one entry per row of the matrix, a right factor's one per column. Each entry of a result is
// summed in a fixed order, so ranges may be computed separately, on different threads, with the same bits.

struct MatrixShape {
  std::size_t rows = 0;
  std::size_t columns = 0;
};

/// left[j][i] = <row i of matrix, right[j]> for the rows [first, last). A row with NaN or infinity gives a result that
/// is not finite.
void multiply(const float* matrix, MatrixShape shape, std::size_t first, std::size_t last, const float* right,
              std::size_t rank, float* left);

/// right[j][k] = sum over the rows i of left[j][i] * matrix[i][k], for the columns [first, last). A column with NaN or
/// infinity gives a result that is not finite.
void multiply_transposed(const float* matrix, MatrixShape shape, std::size_t first, std::size_t last, const float* left,
                         std::size_t rank, float* right);

/// sum[i][k] += weight * (left[0][i] * right[0][k] + left[1][i] * right[1][k] + ...) for the rows [first, last).
void add_outer_products(const float* left, const float* right, std::size_t rank, MatrixShape shape, std::size_t first,
                        std::size_t last, float weight, float* sum);

/// Makes the `rank` vectors of a factor orthonormal, in place, by modified Gram-Schmidt in double precision, applied
/// twice. A vector that is linearly dependent on those before it becomes zero.
void orthonormalise(std::span<float> vectors, std::size_t rank);

/// Scales each of the `rank` vectors to norm 1; a zero vector stays zero. Entries must be finite.
void normalise(std::span<float> vectors, std::size_t rank);

/// The largest magnitude() of the values; 0 if there are none.
std::uint32_t largest_magnitude(std::span<const float> values);

/// True if no entry of the sum of outer products can overflow: the sum over j of max|left[j]| * max|right[j]| is a
/// finite float. False also if a value is NaN or infinite.
bool outer_products_are_finite(std::span<const float> left, std::span<const float> right, std::size_t rank);

}  // namespace weir::compressors
