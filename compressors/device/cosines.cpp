#include "compressors/device/cosines.hpp"

#include <array>
#include <vector>

#include "compressors/device/launching.hpp"
#include "compressors/kernels/linear_algebra/cosines.hpp"
#include "cuda/kernels/cosines.hpp"

namespace weir::compressors::device {
namespace {

/// The cosines of n points, row by row or column by column.
void append_cosines(std::size_t n, bool by_columns, std::vector<float>& to) {
  const float* const from = cosines(n);
  for (std::size_t i = 0; i < n * n; ++i) to.push_back(by_columns ? from[i % n * n + i / n] : from[i]);
}

}  // namespace

Result<at::Tensor> transform(const at::Tensor& matrix, const BlockGrid& grid) {
  at::Tensor coefficients = at::empty(matrix.sizes(), matrix.options());
  if (matrix.numel() == 0) return coefficients;
  const cuda::BlockGrid blocks = of_kernels(grid);
  std::vector<float> all;
  std::array<std::size_t, 4> begins{};
  for (std::size_t i = 0; i < begins.size(); ++i) {
    const bool is_across = i >= 2;
    const std::size_t n = is_across ? blocks.columns : blocks.rows;
    const std::size_t count = is_across ? blocks.across : blocks.down;
    begins[i] = all.size();
    if (i % 2 == 0 || n % count != 0) append_cosines(n / count + i % 2, is_across, all);
  }
  const at::Tensor above = bring_up(std::span<const float>(all), matrix);
  cuda::CosineTables tables;
  for (std::size_t i = 0; i < begins.size(); ++i) {
    (i < 2 ? tables.down : tables.across)[i % 2] = place<float>(above) + begins[i];
  }
  auto done =
      cuda::transform_blocks(place<float>(matrix), blocks, tables, place<float>(coefficients), current_handle(matrix));
  return done ? Result<at::Tensor>(std::move(coefficients)) : done.error();
}

}  // namespace weir::compressors::device
