#include "cuda/kernels/quantize.hpp"

#include "cuda/kernels/batch.cuh"
#include "cuda/kernels/device.cuh"
#include "cuda/launch.cuh"

namespace weir::cuda {
namespace {

/// What a warp takes of a row at a time.
constexpr unsigned piece = 4096;

/// What a warp codes at a time: four entries of each lane, and as many again behind those of all lanes.
constexpr unsigned fours = 4;
constexpr unsigned entries_of_four = 4 * warp_lanes;
constexpr unsigned tile = fours * entries_of_four;

/// How many blocks of a kernel that codes, or that looks for extremes, a multiprocessor has registers for.
constexpr unsigned code_blocks = 5;
constexpr unsigned extremes_blocks = 6;

/// Loads a lane's four entries of each `entries_of_four` from `from` on, all before the first is needed.
__device__ void load_fours(const float* from, Four (&four)[fours]) {
  if (is_aligned<float4>(from)) {
#pragma unroll
    for (unsigned k = 0; k < fours; ++k) {
      const float4 all = *reinterpret_cast<const float4*>(from + k * entries_of_four);
      four[k] = {{all.x, all.y, all.z, all.w}};
    }
  } else {
#pragma unroll
    for (unsigned k = 0; k < fours; ++k) {
#pragma unroll
      for (unsigned i = 0; i < 4; ++i) four[k].x[i] = from[k * entries_of_four + i];
    }
  }
}

/// Maps the bits of a float to an integer of the same order, and back: reverses the order of negative numbers. NaN lies
/// beyond infinity.
__device__ std::int32_t ordered(std::int32_t bits) { return bits ^ (bits >> 31 & 0x7FFFFFFF); }

__device__ float float_of(std::int32_t in_order) { return __int_as_float(ordered(in_order)); }

__host__ __device__ std::uint64_t pieces_of(std::uint64_t row) { return (row + piece - 1) / piece; }

__global__ void __launch_bounds__(shape_threads, extremes_blocks) extremes_kernel(Batch<RowsToWrite> batch) {
  const auto [of, blocks] = batch.of_this_block();
  const std::uint64_t pieces_of_row = pieces_of(of.row);
  std::uint32_t largest = 0;
  for (std::uint64_t i = blocks.warp(); i < of.channels * pieces_of_row; i += blocks.warps()) {
    const std::uint64_t channel = i / pieces_of_row;
    const std::uint64_t begin = i % pieces_of_row * piece;
    const float* const from = of.values + channel * of.row + begin;
    const unsigned size = at_most(of.row - begin, piece);
    std::int32_t least = 0;
    std::int32_t most = 0;
    const auto note = [&](const Four& four) {
      for (const float value : four.x) {
        const std::int32_t here = ordered(__float_as_int(value));
        least = here < least ? here : least;
        most = here > most ? here : most;
      }
    };
    unsigned at = 4 * lane_of_thread();
    for (unsigned end = tile; end <= size; end += tile, at += tile) {
      Four four[fours];
      load_fours(from + at, four);
      for (const Four& here : four) note(here);
    }
    for (; at < size; at += entries_of_four) note(load_four(from + at, at_most(size - at, 4)));
    least = __reduce_min_sync(all_lanes, least);
    most = __reduce_max_sync(all_lanes, most);
    if (lane_of_thread() == 0) {
      atomicMin(&of.extremes[channel].least, least);
      atomicMax(&of.extremes[channel].most, most);
    }
    const std::uint32_t below = magnitude(float_of(least));
    const std::uint32_t above = magnitude(float_of(most));
    const std::uint32_t here = below > above ? below : above;
    largest = here > largest ? here : largest;
  }
  raise(&of.report->largest, largest);
}

/// reach / steps. Positive if `reach` is: a denormal quotient is rounded up. Twin of scale_for()
/// (compressors/quantizers/channels.hpp).
__device__ float scale_for(float reach, int steps) {
  const float scale = reach / static_cast<float>(steps);
  const bool low = scale < 0x1p-126F && static_cast<double>(scale) * steps < reach;
  return low ? __uint_as_float(__float_as_uint(scale) + 1) : scale;
}

/// Rounds to nearest, ties to even, for magnitudes up to 2^22: after adding the shift, the last place of the float is
/// 1.
__device__ std::int32_t nearest(float value) {
  constexpr float shift = 0x1.8p23F;
  return __float_as_int(value + shift) - __float_as_int(shift);
}

__device__ std::int32_t bounded(std::int32_t value, std::int32_t least, std::int32_t most) {
  const std::int32_t raised = value < least ? least : value;
  return raised > most ? most : raised;
}

// The two codes. A Code writes what precedes a channel's codes, reads it, and codes an entry.

struct Int8 {
  static constexpr unsigned head_bytes = sizeof(float);  // of a channel

  static __device__ Int8 of(const RowExtremes& extremes) {
    const std::uint32_t below = magnitude(float_of(extremes.least));
    const std::uint32_t above = magnitude(float_of(extremes.most));
    return {scale_for(__uint_as_float(below > above ? below : above), 127)};
  }
  static __device__ Int8 read(const std::byte* code, std::uint64_t, std::uint64_t channel) {
    return {load_f32(code + channel * sizeof(float))};
  }
  __device__ void write(std::byte* code, std::uint64_t, std::uint64_t channel) const {
    store_f32(scale, code + channel * sizeof(float));
  }
  __device__ std::uint32_t code_of(float x) const {
    return scale > 0 ? static_cast<std::uint32_t>(bounded(nearest(x / scale), -127, 127)) & 0xFF : 0;
  }
  __device__ float value_of(std::uint32_t code) const {
    return finite(scale * static_cast<float>(static_cast<std::int32_t>(code << 24) >> 24));
  }

  static constexpr std::int32_t zero = 0;
  float scale;
};

struct Uint8 {
  static constexpr unsigned head_bytes = sizeof(float) + 1;

  /// Twin of grid_for() (compressors/quantizers/channels.hpp).
  static __device__ Uint8 of(const RowExtremes& extremes) {
    constexpr int steps = 255;
    const float below = -float_of(extremes.least);
    const float above = float_of(extremes.most);
    const float shorter = above < below ? above : below;
    const float longer = below < above ? above : below;
    if (longer == 0) return {0, 0};
    const double whole = static_cast<double>(shorter) + longer;
    const int needed = static_cast<int>(ceil(steps * (shorter / whole)));
    const int rest = steps - needed;
    return {scale_for(longer, rest), below == longer ? rest : needed};
  }
  static __device__ Uint8 read(const std::byte* code, std::uint64_t channels, std::uint64_t channel) {
    return {load_f32(code + channel * sizeof(float)),
            static_cast<std::int32_t>(code[channels * sizeof(float) + channel])};
  }
  __device__ void write(std::byte* code, std::uint64_t channels, std::uint64_t channel) const {
    store_f32(scale, code + channel * sizeof(float));
    code[channels * sizeof(float) + channel] = static_cast<std::byte>(zero);
  }
  __device__ std::uint32_t code_of(float x) const {
    return scale > 0 ? static_cast<std::uint32_t>(bounded(nearest(x / scale) + zero, 0, 255)) : 0;
  }
  __device__ float value_of(std::uint32_t code) const {
    return finite(scale * static_cast<float>(static_cast<std::int32_t>(code) - zero));
  }

  float scale;
  std::int32_t zero;
};

template <class Code>
__global__ void write_heads_kernel(Batch<RowsToWrite> batch) {
  const auto [of, blocks] = batch.of_this_block();
  for (std::uint64_t i = blocks.thread(); i < of.channels; i += blocks.threads()) {
    Code::of(of.extremes[i]).write(of.code, of.channels, i);
  }
}

/// Calls body(k, code) for the entries at + k, k < count, with what precedes the codes of their channels.
template <class Code, class Body>
__device__ void for_entries(const std::byte* code, std::uint32_t channels, std::uint32_t row, std::uint32_t at,
                            unsigned count, const Body& body) {
  std::uint32_t channel = at / row;
  std::uint32_t place = at - channel * row;
  Code of_channel = Code::read(code, channels, channel);
  for (unsigned k = 0; k < count; ++k) {
    if (place == row) {
      of_channel = Code::read(code, channels, ++channel);
      place = 0;
    }
    ++place;
    body(k, of_channel);
  }
}

/// Calls body(start, channel) for the warp's whole tiles of one channel, and rest(at, count) for the entries of the
/// others, up to four at a time. The blocks take all tiles.
template <class Body, class Rest>
__device__ void for_tiles(const GridPart& blocks, std::uint32_t channels, std::uint32_t row, const Body& body,
                          const Rest& rest) {
  const std::uint64_t n = std::uint64_t{channels} * row;
  const std::uint64_t tiles = (n + tile - 1) / tile;
  // From the end on: who has read the values before has left these in the cache.
  for (std::uint64_t i = blocks.warp(); i < tiles; i += blocks.warps()) {
    const std::uint64_t start = (tiles - 1 - i) * tile;
    const std::uint32_t channel = static_cast<std::uint32_t>(start) / row;
    if (start + tile <= (channel + std::uint64_t{1}) * row) {
      body(start, channel);
      continue;
    }
    for (unsigned k = 0; k < fours; ++k) {
      const std::uint64_t at = start + k * entries_of_four + 4 * lane_of_thread();
      if (at < n) rest(at, at_most(n - at, 4));
    }
  }
}

/// The codes of four entries, given 1 / of.scale. The error of the quotients is at most `error`.
template <class Code>
__device__ std::uint32_t codes_of(const Four& four, const Code& of, float reciprocal, float error) {
  // No code needs bounds: the scale is that of the channel's extremes.
  Rounding rounding(of.zero);
  std::uint32_t codes[4];
#pragma unroll
  for (unsigned k = 0; k < 4; ++k) codes[k] = rounding(four.x[k] * reciprocal);
  if (!rounding.is_sure(error)) {
#pragma unroll
    for (unsigned k = 0; k < 4; ++k) codes[k] = of.code_of(four.x[k]);
  }
  return bytes_of<0>(codes);
}

template <class Code>
__global__ void __launch_bounds__(shape_threads, code_blocks) write_codes_kernel(Batch<RowsToWrite> batch) {
  const auto [of_block, blocks] = batch.of_this_block();
  const float* const __restrict__ values = of_block.values;
  std::byte* const code = of_block.code;
  const auto channels = static_cast<std::uint32_t>(of_block.channels);
  const auto row = static_cast<std::uint32_t>(of_block.row);
  std::byte* const codes = code + of_block.channels * Code::head_bytes;
  const auto write_tile = [&](std::uint64_t start, std::uint32_t channel) {
    Four four[fours];
    load_fours(values + start + 4 * lane_of_thread(), four);
    const Code of = Code::read(code, channels, channel);
    // Both quotients are rounded, and the reciprocal: if it is inexact or infinite, no code is sure.
    const float reciprocal = 1 / of.scale;
    const float error = of.scale >= 0x1p-100F ? 0x1p-14F : 1;
#pragma unroll
    for (unsigned k = 0; k < fours; ++k) {
      store_words(codes_of(four[k], of, reciprocal, error), codes + start + k * entries_of_four);
    }
  };
  for_tiles(blocks, channels, row, write_tile, [&](std::uint64_t at, unsigned count) {
    const Four four = load_four(values + at, count);
    std::uint32_t word = 0;
    for_entries<Code>(code, channels, row, static_cast<std::uint32_t>(at), count,
                      [&](unsigned k, const Code& of) { word |= of.code_of(four.x[k]) << 8 * k; });
    store_word(word, codes + at, count);
  });
}

template <class Code>
__global__ void __launch_bounds__(shape_threads, code_blocks) add_codes_kernel(Batch<RowsToAdd> batch) {
  const auto [of_block, blocks] = batch.of_this_block();
  const std::byte* const __restrict__ code = of_block.code;
  float* const __restrict__ sum = of_block.sum;
  const float weight = of_block.weight;
  const auto channels = static_cast<std::uint32_t>(of_block.channels);
  const auto row = static_cast<std::uint32_t>(of_block.row);
  const std::byte* const codes = code + of_block.channels * Code::head_bytes;
  const auto add_tile = [&](std::uint64_t start, std::uint32_t channel) {
    const std::uint64_t mine = start + 4 * lane_of_thread();
    Four four[fours];
    load_fours(sum + mine, four);
    std::uint32_t words[fours];
#pragma unroll
    for (unsigned k = 0; k < fours; ++k) {
      words[k] = load_word<std::uint32_t>(codes + mine + k * entries_of_four, 4);
    }
    const Code of = Code::read(code, channels, channel);
#pragma unroll
    for (unsigned k = 0; k < fours; ++k) {
#pragma unroll
      for (unsigned i = 0; i < 4; ++i) four[k].x[i] += weight * of.value_of(words[k] >> 8 * i & 0xFF);
      store_four(four[k], sum + mine + k * entries_of_four, 4);
    }
  };
  for_tiles(blocks, channels, row, add_tile, [&](std::uint64_t at, unsigned count) {
    const auto word = load_word<std::uint32_t>(codes + at, count);
    Four four = load_four(sum + at, count);
    for_entries<Code>(code, channels, row, static_cast<std::uint32_t>(at), count,
                      [&](unsigned k, const Code& of) { four.x[k] += weight * of.value_of(word >> 8 * k & 0xFF); });
    store_four(four, sum + at, count);
  });
}

template <class Code>
Result<void> write(const char* name, std::span<const RowsToWrite> tensors, StreamHandle stream) {
  const auto pieces = [](const RowsToWrite& of) {
    return shape_for(of.channels * pieces_of(of.row) * warp_lanes, 1, extremes_blocks);
  };
  const auto channels = [](const RowsToWrite& of) { return shape_for(of.channels, 1); };
  const auto tiles = [](const RowsToWrite& of) {
    return shape_for(of.channels * of.row, tile / warp_lanes, code_blocks);
  };
  auto done = launch_blocks(name, extremes_kernel, tensors, pieces, stream);
  if (done) done = launch_blocks(name, write_heads_kernel<Code>, tensors, channels, stream);
  return done ? launch_blocks(name, write_codes_kernel<Code>, tensors, tiles, stream) : done;
}

template <class Code>
Result<void> add(const char* name, std::span<const RowsToAdd> tensors, StreamHandle stream) {
  const auto tiles = [](const RowsToAdd& of) {
    return shape_for(of.channels * of.row, tile / warp_lanes, code_blocks);
  };
  return launch_blocks(name, add_codes_kernel<Code>, tensors, tiles, stream);
}

}  // namespace

Result<void> write_int8(std::span<const RowsToWrite> tensors, StreamHandle stream) {
  return write<Int8>("write_int8", tensors, stream);
}

Result<void> add_int8(std::span<const RowsToAdd> tensors, StreamHandle stream) {
  return add<Int8>("add_int8", tensors, stream);
}

Result<void> write_uint8(std::span<const RowsToWrite> tensors, StreamHandle stream) {
  return write<Uint8>("write_uint8", tensors, stream);
}

Result<void> add_uint8(std::span<const RowsToAdd> tensors, StreamHandle stream) {
  return add<Uint8>("add_uint8", tensors, stream);
}

}  // namespace weir::cuda
