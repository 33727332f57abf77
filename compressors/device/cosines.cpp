#include "compressors/device/cosines.hpp"

#include <array>
#include <map>
#include <mutex>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "compressors/device/launching.hpp"
#include "compressors/kernels/linear_algebra/cosines.hpp"
#include "cuda/kernels/cosines.hpp"

namespace weir::compressors::device {
namespace {

/// The cosines of n points beside a tensor, row by row or column by column. They are brought up once for each stream
/// and then stay: in another stream they might be read before they are there.
const float* table_of(std::size_t n, bool by_columns, const at::Tensor& beside) {
  using Key = std::tuple<cuda::StreamHandle, std::size_t, bool>;
  static std::mutex mutex;
  static auto* const kept = new std::map<Key, at::Tensor>;
  const std::lock_guard lock(mutex);
  at::Tensor& table = (*kept)[{current_handle(beside), n, by_columns}];
  if (!table.defined()) {
    const float* const from = cosines(n);
    std::vector<float> all(n * n);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = by_columns ? from[i % n * n + i / n] : from[i];
    table = bring_up(std::span<const float>(all), beside);
  }
  return place<float>(table);
}

/// What kernels multiply the blocks of a grid with.
cuda::CosineTables tables_of(const cuda::BlockGrid& blocks, const at::Tensor& beside) {
  cuda::CosineTables tables;
  for (std::size_t longer = 0; longer < 2; ++longer) {
    const auto side = [&](std::size_t n, std::size_t count, bool by_columns) {
      const bool is_any = longer == 0 || n % count != 0;
      return is_any ? table_of(n / count + longer, by_columns, beside) : nullptr;
    };
    tables.down[longer] = side(blocks.rows, blocks.down, false);
    tables.across[longer] = side(blocks.columns, blocks.across, true);
  }
  return tables;
}

}  // namespace

Result<at::Tensor> transform(const at::Tensor& matrix, const BlockGrid& grid) {
  at::Tensor coefficients = at::empty(matrix.sizes(), matrix.options());
  if (matrix.numel() == 0) return coefficients;
  const cuda::BlockGrid blocks = of_kernels(grid);
  auto done = cuda::transform_blocks(place<float>(matrix), blocks, tables_of(blocks, matrix),
                                     place<float>(coefficients), current_handle(matrix));
  return done ? Result<at::Tensor>(std::move(coefficients)) : done.error();
}

Result<void> add_inverse(const BlockGrid& grid, const Selection& coefficients, float weight, at::Tensor& sum) {
  if (coefficients.size() == 0) return {};
  const cuda::BlockGrid blocks = of_kernels(grid);
  const std::array<BytesView, 2> below{std::as_bytes(std::span(coefficients.positions)),
                                       std::as_bytes(std::span(coefficients.values))};
  const RaisedBytes above = bring_up_all(below, sum);
  const cuda::Coefficients all{reinterpret_cast<const std::uint32_t*>(above.place(0)),
                               reinterpret_cast<const float*>(above.place(1)), coefficients.size()};
  return cuda::add_inverse(all, blocks, tables_of(blocks, sum), weight, place<float>(sum), current_handle(sum));
}

}  // namespace weir::compressors::device
