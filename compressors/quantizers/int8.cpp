#include "compressors/quantizers/int8.hpp"

#include <algorithm>
#include <atomic>
#include <bit>

#include "base/errc.hpp"
#include "compressors/codecs/varint.hpp"
#include "compressors/device/codes.hpp"
#include "compressors/kernels/prefetch.hpp"
#include "compressors/kernels/quantization/quantize.hpp"
#include "compressors/kernels/selection/selection.hpp"
#include "compressors/parallel_loops.hpp"
#include "compressors/quantizers/channels.hpp"

namespace weir::compressors {
namespace {

constexpr int steps = 127;

}  // namespace

double Int8::error_bound(std::uint64_t entries, const Round&) const { return bound_of_steps(entries); }

std::size_t Int8::code_bytes(const Extent& extent) const { return extent.channels * sizeof(float) + extent.entries; }

bool Int8::write(std::span<const float> values, const Extent& extent, const Round&, std::span<std::byte> code) {
  const std::size_t row = values.size() / extent.channels;
  const std::span<std::byte> codes = code.subspan(extent.channels * sizeof(float));
  std::atomic<bool> finite = true;
  parallel_for_parts(extent.channels, row, [&](std::size_t channel) {
    const auto part = values.subspan(channel * row, row);
    const auto to = codes.subspan(channel * row, row);
    prefetch_next(values, channel * row, row);
    const std::uint32_t largest = extremes_of(part).magnitude;
    if (largest >= magnitude_infinite) {
      finite = false;
      return;
    }
    const float scale = scale_for(std::bit_cast<float>(largest), steps);
    store_f32(code.data() + channel * sizeof(float), scale);
    if (scale > 0) {
      write_int8(part, scale, to);
    } else {
      std::ranges::fill(to, std::byte{0});
    }
  });
  return finite;
}

Result<void> Int8::begin_on_device(std::span<const device::ToCode> tensors, std::span<const Round>) {
  return device::begin_int8(tensors);
}

Result<void> Int8::check(BytesView code, const Extent& extent) const {
  if (are_scales(code, extent.channels)) return {};
  return Error(Errc::malformed, "int8: a scale that is none");
}

void Int8::read_add(BytesView code, const Extent& extent, float weight, std::size_t begin, std::size_t end,
                    std::span<float> sum) const {
  const std::size_t row = sum.size() / extent.channels;
  const BytesView codes = code.subspan(extent.channels * sizeof(float));
  for_channel_parts(row, begin, end, [&](std::size_t channel, std::size_t at, std::size_t size) {
    const float scale = load_f32(code.data() + channel * sizeof(float));
    prefetch_next(sum, at, size);
    add_int8(codes.subspan(at, size), scale, weight, sum.subspan(at, size));
  });
}

Result<void> Int8::read_add_on_device(std::span<const device::ToAdd> codes) const { return device::add_int8(codes); }

}  // namespace weir::compressors
