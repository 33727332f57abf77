#include "compressors/quantizers/uint8.hpp"

#include <algorithm>
#include <atomic>

#include "base/errc.hpp"
#include "compressors/codecs/varint.hpp"
#include "compressors/device/codes.hpp"
#include "compressors/kernels/prefetch.hpp"
#include "compressors/kernels/quantization/quantize.hpp"
#include "compressors/kernels/selection/selection.hpp"
#include "compressors/parallel_loops.hpp"
#include "compressors/quantizers/channels.hpp"

namespace weir::compressors {

double Uint8::error_bound(std::uint64_t entries, const Round&) const { return bound_of_steps(entries); }

std::size_t Uint8::code_bytes(const Extent& extent) const {
  return extent.channels * (sizeof(float) + 1) + extent.entries;
}

bool Uint8::write(std::span<const float> values, const Extent& extent, const Round&, std::span<std::byte> code) {
  const std::size_t row = values.size() / extent.channels;
  const std::span<std::byte> zeros = code.subspan(extent.channels * sizeof(float), extent.channels);
  const std::span<std::byte> codes = code.subspan(extent.channels * (sizeof(float) + 1));
  std::atomic<bool> finite = true;
  parallel_for_parts(extent.channels, row, [&](std::size_t channel) {
    const auto part = values.subspan(channel * row, row);
    const auto to = codes.subspan(channel * row, row);
    prefetch_next(values, channel * row, row);
    const Extremes extremes = extremes_of(part);
    if (extremes.magnitude >= magnitude_infinite) {
      finite = false;
      return;
    }
    const Grid grid = grid_for(-extremes.least, extremes.most);
    store_f32(code.data() + channel * sizeof(float), grid.scale);
    zeros[channel] = static_cast<std::byte>(grid.zero);
    if (grid.scale > 0) {
      write_uint8(part, grid.scale, grid.zero, to);
    } else {
      std::ranges::fill(to, std::byte{0});
    }
  });
  return finite;
}

Result<void> Uint8::begin_on_device(std::span<const device::ToCode> tensors, std::span<const Round>) {
  return device::begin_uint8(tensors);
}

Result<void> Uint8::check(BytesView code, const Extent& extent) const {
  if (are_scales(code, extent.channels)) return {};
  return Error(Errc::malformed, "uint8: a scale that is none");
}

void Uint8::read_add(BytesView code, const Extent& extent, float weight, std::size_t begin, std::size_t end,
                     std::span<float> sum) const {
  const std::size_t row = sum.size() / extent.channels;
  const BytesView zeros = code.subspan(extent.channels * sizeof(float), extent.channels);
  const BytesView codes = code.subspan(extent.channels * (sizeof(float) + 1));
  for_channel_parts(row, begin, end, [&](std::size_t channel, std::size_t at, std::size_t size) {
    const float scale = load_f32(code.data() + channel * sizeof(float));
    const auto zero = std::to_integer<std::uint8_t>(zeros[channel]);
    prefetch_next(sum, at, size);
    add_uint8(codes.subspan(at, size), scale, zero, weight, sum.subspan(at, size));
  });
}

Result<void> Uint8::read_add_on_device(std::span<const device::ToAdd> codes) const { return device::add_uint8(codes); }

}  // namespace weir::compressors
