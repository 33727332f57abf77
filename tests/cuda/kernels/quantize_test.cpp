#include "cuda/kernels/quantize.hpp"

#include <algorithm>

#include "compressors/kernels/quantization/quantize.hpp"
#include "compressors/quantizers/channels.hpp"
#include "tests/cuda/kernels/support.hpp"

namespace weir::cuda {
namespace {

/// Shapes whose rows have lengths of every alignment, and are shorter and longer than a warp's piece.
struct Rows {
  std::size_t channels;
  std::size_t row;
};
std::vector<Rows> shapes() {
  std::vector<Rows> all = {{5, 1}, {64, 9}, {3, 1001}, {8, 512}, {7, 4097}, {2, 12'345}};
  for (const std::size_t n : sizes) {
    if (n > 0) all.push_back({1, n});
  }
  return all;
}

void put_f32(float value, std::byte* to) { std::memcpy(to, &value, sizeof value); }

/// As Int8::write(); false if a value is not finite.
bool due_int8(std::span<const float> values, const Rows& rows, std::span<std::byte> code) {
  for (std::size_t channel = 0; channel < rows.channels; ++channel) {
    const auto part = values.subspan(channel * rows.row, rows.row);
    const auto to = code.subspan(4 * rows.channels + channel * rows.row, rows.row);
    const std::uint32_t largest = compressors::extremes_of(part).magnitude;
    if (largest >= magnitude_infinite) return false;
    const float scale = compressors::scale_for(std::bit_cast<float>(largest), 127);
    put_f32(scale, code.data() + 4 * channel);
    if (scale > 0) compressors::write_int8(part, scale, to);  // else zeros, which the code begins as
  }
  return true;
}

/// As Uint8::write().
bool due_uint8(std::span<const float> values, const Rows& rows, std::span<std::byte> code) {
  for (std::size_t channel = 0; channel < rows.channels; ++channel) {
    const auto part = values.subspan(channel * rows.row, rows.row);
    const auto to = code.subspan(5 * rows.channels + channel * rows.row, rows.row);
    const compressors::Extremes extremes = compressors::extremes_of(part);
    if (extremes.magnitude >= magnitude_infinite) return false;
    const compressors::Grid grid = compressors::grid_for(-extremes.least, extremes.most);
    put_f32(grid.scale, code.data() + 4 * channel);
    code[4 * rows.channels + channel] = static_cast<std::byte>(grid.zero);
    if (grid.scale > 0) compressors::write_uint8(part, grid.scale, grid.zero, to);
  }
  return true;
}

TEST(CudaQuantize, Int8IsThatOfTheTwin) {
  for (const Rows& rows : shapes()) {
    for (const Among among : all_kinds) {
      const std::size_t n = rows.channels * rows.row;
      SCOPED_TRACE(named(n, among));
      const auto values = some_values(n, among);
      std::vector<std::byte> due(4 * rows.channels + n);
      const bool finite = due_int8(values, rows, due);
      const Array<std::byte> code(due.size(), n % 5);
      const Array<RowExtremes> extremes{std::vector<RowExtremes>(rows.channels)};
      const Reported report;
      const Array<float> x(values, n % 4);
      write_int8(one(RowsToWrite{x.data(), rows.channels, rows.row, extremes.data(), code.data(), report.at()}),
                 nullptr)
          .value();
      ASSERT_EQ(report.read().largest < magnitude_infinite, finite);
      if (!finite) continue;
      ASSERT_TRUE(same_bits(code.read(), due));
      auto due_sum = some_values(n, Among::nothing, 2);
      const Array<float> sum(due_sum, n % 3);
      for (std::size_t channel = 0; channel < rows.channels; ++channel) {
        float scale;
        std::memcpy(&scale, due.data() + 4 * channel, sizeof scale);
        compressors::add_int8(std::span(due).subspan(4 * rows.channels + channel * rows.row, rows.row), scale, 0.7F,
                              std::span(due_sum).subspan(channel * rows.row, rows.row));
      }
      add_int8(one(RowsToAdd{code.data(), rows.channels, rows.row, 0.7F, sum.data()}), nullptr).value();
      ASSERT_TRUE(same_bits(sum.read(), due_sum));
    }
  }
}

TEST(CudaQuantize, Uint8IsThatOfTheTwin) {
  for (const Rows& rows : shapes()) {
    for (const Among among : all_kinds) {
      const std::size_t n = rows.channels * rows.row;
      SCOPED_TRACE(named(n, among));
      auto values = some_values(n, among);
      if (n % 3 == 0) std::ranges::transform(values, values.begin(), [](float x) { return std::fabs(x); });
      std::vector<std::byte> due(5 * rows.channels + n);
      const bool finite = due_uint8(values, rows, due);
      const Array<std::byte> code(due.size(), n % 5);
      const Array<RowExtremes> extremes{std::vector<RowExtremes>(rows.channels)};
      const Reported report;
      const Array<float> x(values, n % 4);
      write_uint8(one(RowsToWrite{x.data(), rows.channels, rows.row, extremes.data(), code.data(), report.at()}),
                  nullptr)
          .value();
      ASSERT_EQ(report.read().largest < magnitude_infinite, finite);
      if (!finite) continue;
      ASSERT_TRUE(same_bits(code.read(), due));
      auto due_sum = some_values(n, Among::nothing, 2);
      const Array<float> sum(due_sum, n % 3);
      for (std::size_t channel = 0; channel < rows.channels; ++channel) {
        float scale;
        std::memcpy(&scale, due.data() + 4 * channel, sizeof scale);
        compressors::add_uint8(std::span(due).subspan(5 * rows.channels + channel * rows.row, rows.row), scale,
                               std::to_integer<std::uint8_t>(due[4 * rows.channels + channel]), 0.7F,
                               std::span(due_sum).subspan(channel * rows.row, rows.row));
      }
      add_uint8(one(RowsToAdd{code.data(), rows.channels, rows.row, 0.7F, sum.data()}), nullptr).value();
      ASSERT_TRUE(same_bits(sum.read(), due_sum));
    }
  }
}

/// Values half way between codes, beside one that makes the scale `scale`, and, where that is tiny, others of its size.
std::vector<float> ties(float scale) {
  std::vector<float> values(2'048);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = scale * (static_cast<float>(static_cast<int>(i % 253) - 126) + (i % 7 == 0 ? 0.25F : 0.5F));
  }
  values[77] = 127 * scale;
  return values;
}

TEST(CudaQuantize, TiesAndExtremeScalesAreThoseOfTheTwin) {
  for (const float scale : {1.0F, 0.3F, 0x1p-110F, 0x1p-149F, 0x1p120F}) {
    const auto values = ties(scale);
    const Rows rows = {1, values.size()};
    std::vector<std::byte> due(4 + values.size());
    ASSERT_TRUE(due_int8(values, rows, due));
    const Array<std::byte> code(due.size());
    const Array<RowExtremes> extremes{std::vector<RowExtremes>(2)};
    const Reported report;
    const Array<float> x(values);
    write_int8(one(RowsToWrite{x.data(), 1, rows.row, extremes.data(), code.data(), report.at()}), nullptr).value();
    EXPECT_TRUE(same_bits(code.read(), due)) << scale;
    std::vector<std::byte> due_grid(5 + values.size());
    ASSERT_TRUE(due_uint8(values, rows, due_grid));
    const Array<std::byte> grid(due_grid.size());
    write_uint8(one(RowsToWrite{x.data(), 1, rows.row, extremes.data() + 1, grid.data(), report.at()}), nullptr)
        .value();
    EXPECT_TRUE(same_bits(grid.read(), due_grid)) << scale;
  }
}

}  // namespace
}  // namespace weir::cuda
