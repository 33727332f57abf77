#include "compressors/quantizers/terngrad.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/errc.hpp"
#include "compressors/codecs/varint.hpp"
#include "compressors/device/codes.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/prefetch.hpp"
#include "compressors/kernels/quantization/quantize.hpp"
#include "compressors/kernels/random/random.hpp"
#include "compressors/kernels/selection/selection.hpp"
#include "compressors/non_finite.hpp"
#include "compressors/parallel_loops.hpp"
#include "compressors/quantizers/channels.hpp"
#include "compressors/round_key.hpp"

namespace weir::compressors {
namespace {

constexpr std::size_t block_bytes = trit_bytes(trit_block);

/// The statistics of all values; the same for any number of threads.
Size total_size(std::span<const float> values) {
  constexpr std::size_t block = 4096;
  thread_local std::vector<Size> kept;  // between calls, to reuse its memory
  kept.resize((values.size() + block - 1) / block);
  const std::span parts = kept;  // of this thread, also where another one fills it
  parallel_for_ranges(values.size(), block, [&](std::size_t begin, std::size_t end) {
    for (std::size_t start = begin; start < end; start += block) {
      prefetch_next(values, start, block);
      parts[start / block] = size_of(values.subspan(start, std::min(block, end - start)));
    }
  });
  return sum_of_sizes(parts);
}

}  // namespace

protocol::Params<TernGrad::Options> TernGrad::params() {
  return protocol::Params<Options>()
      .number("clip", &Options::clip, {.minimum = 0.0, .maximum = 1e6},
              "Entries are clipped at this many standard deviations; 0: not at all.")
      .choice("scale", &Options::scale, {"shared", "local"},
              "The scale is the largest magnitude of all ranks, or of each rank its own.");
}

Traits TernGrad::traits() const {
  Traits traits{.biased = clip_ > 0};
  if (shared_) traits.passes = {Reduction::max, Reduction::gather};
  return traits;
}

double TernGrad::error_bound(std::uint64_t entries, const Round&) const {
  if (shared_) return std::numeric_limits<double>::infinity();
  if (clip_ == 0) return entries == 0 ? 0 : (std::sqrt(static_cast<double>(entries)) - 1) / 2;
  return clip_ <= 4 ? 1 + clip_ * clip_ / 8 : clip_ - 1;
}

Result<void> TernGrad::begin_sizes(std::span<const at::Tensor> gradients, std::span<const Round> rounds) {
  const std::vector<std::size_t> no_codes(gradients.size());
  auto coming = begin_codes(gradients, rounds, no_codes,
                            [](std::span<const device::ToCode> tensors) { return device::begin_sizes(tensors); });
  if (!coming) return coming.error();
  for (std::size_t i = 0; i < gradients.size(); ++i) sizes_.put(rounds[i], std::move((*coming)[i]));
  return {};
}

Result<Size> TernGrad::size_from_device(const at::Tensor& gradient, const Round& round) {
  Coming coming = sizes_.take(round);
  if (coming.codes == nullptr) {
    if (auto begun = begin_sizes(std::span(&gradient, 1), std::span(&round, 1)); !begun) return begun.error();
    coming = sizes_.take(round);
  }
  const auto read = coming.codes->read(coming.index, {});
  return read ? Result<Size>(read->size) : read.error();
}

Result<void> TernGrad::do_begin(std::span<const at::Tensor> gradients, std::span<const Round> rounds) {
  const bool known = shared_ && rounds.front().pass > 0;
  return known ? Quantizer::do_begin(gradients, rounds) : begin_sizes(gradients, rounds);
}

Result<void> TernGrad::note_limit(const at::Tensor& gradient, const Round& round) {
  const auto size = gradient.is_cpu() ? Result<Size>(total_size(flat(gradient))) : size_from_device(gradient, round);
  if (!size) return size.error();
  if (size->magnitude >= magnitude_infinite) return non_finite(round, gradient);
  const auto largest = std::bit_cast<float>(size->magnitude);
  scales_.of(round) = {.own = largest};
  if (clip_ == 0 || gradient.numel() == 0) return {};
  const double clipped = clip_ * std::sqrt(size->squares / static_cast<double>(gradient.numel()));
  if (clipped < largest) scales_.of(round).own = static_cast<float>(clipped);
  return {};
}

Result<void> TernGrad::do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) {
  if (shared_ && round.pass == 0) return encode_limit(gradient, round, out);
  if (shared_ && scales_.of(round).shared < 0) {
    return Error(Errc::conflict, "terngrad: the ranks' scales of tensor " + std::to_string(round.tensor) +
                                     " have not been brought together");
  }
  if (!shared_) {
    if (auto noted = note_limit(gradient, round); !noted) return noted;
  }
  return Quantizer::do_encode(gradient, round, out);
}

Result<void> TernGrad::encode_limit(const at::Tensor& gradient, const Round& round, Bytes& out) {
  if (auto noted = note_limit(gradient, round); !noted) return noted;
  append(out, std::as_bytes(std::span(&scales_.of(round).own, 1)));
  return {};
}

Result<void> TernGrad::absorb(std::span<const BytesView> results, const Round& round) {
  if (!shared_ || round.pass > 0) return {};
  const bool is_one = results.size() == 1 && results[0].size() == sizeof(float);
  const float largest = is_one ? load_f32(results[0].data()) : -1;
  if (!is_scale(largest)) return Error(Errc::malformed, "terngrad: the largest scale of the ranks is none");
  scales_.of(round).shared = largest;
  return {};
}

std::size_t TernGrad::code_bytes(const Extent& extent) const {
  return sizeof(float) + extent.entries / trit_block * block_bytes + trit_bytes(extent.entries % trit_block);
}

bool TernGrad::write(std::span<const float> values, const Extent&, const Round& round, std::span<std::byte> code) {
  const Scales& scales = scales_.of(round);
  const float scale = scales.of_digit();
  store_f32(code.data(), scale);
  const float divisor = scale > 0 ? scale : 1;
  const std::span<std::byte> bytes = code.subspan(sizeof(float));
  const RandomKey key = key_of_rank(round);
  parallel_for_ranges(values.size(), trit_block, [&](std::size_t begin, std::size_t end) {
    std::array<std::uint32_t, trit_block> buffer;
    for (std::size_t start = begin; start < end; start += trit_block) {
      const auto part = values.subspan(start, std::min(trit_block, end - start));
      const auto words = std::span(buffer).first(part.size());
      prefetch_next(values, start, trit_block);
      fill_random(key, start, words);
      write_trits(part, words, scales.own, divisor,
                  bytes.subspan(start / trit_block * block_bytes, trit_bytes(part.size())));
    }
  });
  return true;
}

Result<void> TernGrad::begin_on_device(std::span<const device::ToCode> tensors, std::span<const Round> rounds) {
  std::vector<device::TritScale> scales;
  for (const Round& round : rounds) scales.push_back({scales_.of(round).own, scales_.of(round).of_digit()});
  return device::begin_trits(tensors, scales);
}

std::size_t TernGrad::unit() const { return trit_block; }

Result<void> TernGrad::check(BytesView code, const Extent&) const {
  if (!is_scale(load_f32(code.data()))) return Error(Errc::malformed, "terngrad: a scale that is none");
  const BytesView bytes = code.subspan(sizeof(float));
  std::atomic<bool> sound = true;
  parallel_for_ranges(bytes.size(), 1, [&](std::size_t begin, std::size_t end) {
    if (!are_trits(bytes.subspan(begin, end - begin))) sound = false;
  });
  if (sound) return {};
  return Error(Errc::malformed, "terngrad: a byte is not five digits of base 3");
}

void TernGrad::read_add(BytesView code, const Extent&, float weight, std::size_t begin, std::size_t end,
                        std::span<float> sum) const {
  const float scale = load_f32(code.data());
  const BytesView bytes = code.subspan(sizeof(float));
  for (std::size_t start = begin; start < end; start += trit_block) {
    const auto part = sum.subspan(start, std::min(trit_block, end - start));
    prefetch_next(sum, start, trit_block);
    const auto from = bytes.subspan(start / trit_block * block_bytes, trit_bytes(part.size()));
    add_trits(from, weight * scale, part);
  }
}

Result<void> TernGrad::read_add_on_device(std::span<const device::ToAdd> codes) const {
  return device::add_trits(codes);
}

}  // namespace weir::compressors
