#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "base/bytes.hpp"
#include "base/errc.hpp"
#include "base/half.hpp"
#include "compressors/compressor.hpp"
#include "compressors/device/codes.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/prefetch.hpp"
#include "compressors/non_finite.hpp"
#include "compressors/parallel_loops.hpp"

namespace weir::compressors {

// The common part of fp16 and bf16: a payload that is a bare array of 16-bit floats, each divided by the number of
// ranks, so that their sum is a mean (Reduction). The loops go block by block, so that the second access to a block
// finds it in the cache.

inline constexpr std::size_t cast_block = 4096;  // entries

/// Whether an array of Number may start at this address. A payload may start at any address.
template <class Number>
bool is_place_for(const std::byte* at) {
  return reinterpret_cast<std::uintptr_t>(at) % alignof(Number) == 0;
}

/// Appends `gradient` / world, rounded to Number.
template <class Number>
Result<void> encode_cast(const at::Tensor& gradient, const Round& round, Bytes& out) {
  const std::size_t before = out.size();
  out.resize(before + entries_of(gradient.sizes()) * sizeof(Number), boost::container::default_init);
  std::byte* const numbers = out.data() + before;
  const float share = 1 / static_cast<float>(round.world);
  if (!gradient.is_cpu()) {
    const auto rounded = device::write_rounded<Number>(gradient, share, std::span(out).subspan(before));
    if (!rounded) return rounded.error();
    return *rounded ? Result<void>() : non_finite(round, gradient);
  }
  const std::span<const float> values = flat(gradient);
  const bool in_place = is_place_for<Number>(numbers);
  std::atomic<bool> finite = true;
  parallel_for_ranges(values.size(), cast_block, [&](std::size_t begin, std::size_t end) {
    std::array<Number, cast_block> block;
    std::array<float, cast_block> shares;
    for (std::size_t start = begin; start < end && finite; start += cast_block) {
      auto part = values.subspan(start, std::min(cast_block, end - start));
      std::byte* to = numbers + start * sizeof(Number);
      const std::span<Number> rounded(in_place ? reinterpret_cast<Number*>(to) : block.data(), part.size());
      prefetch_next(values, start, cast_block);
      if (round.world > 1) {
        for (std::size_t i = 0; i < part.size(); ++i) shares[i] = share * part[i];
        part = std::span(shares).first(part.size());
      }
      if (!round_to(part, rounded)) finite = false;
      if (!in_place) std::memcpy(to, rounded.data(), rounded.size_bytes());
    }
  });
  return finite ? Result<void>() : non_finite(round, values);
}

/// sum += weight * world * `payload`. Of a sum on a device it waits for that. Fails with: malformed (wrong length, or
/// not finite), internal (on a device).
template <class Number>
Result<void> decode_cast(BytesView payload, const Round& round, float weight, at::Tensor& sum) {
  const std::uint64_t entries = entries_of(sum.sizes());
  if (payload.size() != entries * sizeof(Number)) {
    return Error(Errc::malformed, "a payload of " + std::to_string(payload.size()) + " bytes came for a tensor of " +
                                      std::to_string(entries) + " entries of 16 bits");
  }
  const auto whole = static_cast<float>(static_cast<double>(weight) * round.world);
  const auto not_finite = [] { return Error(Errc::malformed, "a 16-bit payload has a number that is not finite"); };
  if (!sum.is_cpu()) {
    const auto added = device::add_rounded<Number>(payload, whole, sum);
    if (!added) return added.error();
    return *added ? Result<void>() : not_finite();
  }
  const std::span<float> target = flat(sum);
  const bool in_place = is_place_for<Number>(payload.data());
  std::atomic<bool> finite = true;
  parallel_for_ranges(target.size(), cast_block, [&](std::size_t begin, std::size_t end) {
    std::array<Number, cast_block> block;
    for (std::size_t start = begin; start < end && finite; start += cast_block) {
      const auto part = target.subspan(start, std::min(cast_block, end - start));
      const std::byte* from = payload.data() + start * sizeof(Number);
      if (!in_place) std::memcpy(block.data(), from, part.size() * sizeof(Number));
      const std::span<const Number> numbers(in_place ? reinterpret_cast<const Number*>(from) : block.data(),
                                            part.size());
      prefetch_next(target, start, cast_block);
      if (!add_scaled(whole, numbers, part)) finite = false;
    }
  });
  return finite ? Result<void>() : not_finite();
}

}  // namespace weir::compressors
