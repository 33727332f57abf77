#include "compressors/sparsifiers/randomk.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/errc.hpp"
#include "base/half.hpp"
#include "compressors/codecs/payload.hpp"
#include "compressors/codecs/sparse.hpp"
#include "compressors/codecs/value_codec.hpp"
#include "compressors/codecs/varint.hpp"
#include "compressors/device/codes.hpp"
#include "compressors/device/memory_steps.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/arithmetic.hpp"
#include "compressors/non_finite.hpp"
#include "compressors/sparsifiers/sparsifier.hpp"
#include "compressors/sparsifiers/strata.hpp"

namespace weir::compressors {
namespace {

/// The divisor of values before they are sent; see Reduction.
float divisor(Reduction reduction, const Round& round) {
  const bool sixteen_bits = reduction == Reduction::sum_fp16 || reduction == Reduction::sum_bf16;
  return sixteen_bits ? static_cast<float>(round.world) : 1.0F;
}

std::size_t number_bytes(Reduction reduction) { return reduction == Reduction::sum ? sizeof(float) : sizeof(Half); }

template <class Number>
void write_rounded(std::span<const float> values, std::span<std::byte> out) {
  std::vector<Number> rounded(values.size());
  (void)round_to(values, rounded);  // the values are finite
  if (!rounded.empty()) std::memcpy(out.data(), rounded.data(), out.size());
}

template <class Number>
void read_rounded(BytesView in, std::span<float> values) {
  std::vector<Number> rounded(values.size());
  if (!rounded.empty()) std::memcpy(rounded.data(), in.data(), in.size());
  std::ranges::transform(rounded, values.begin(), [](Number it) { return to_float(it); });
}

}  // namespace

protocol::Params<RandomK::Options> RandomK::params() {
  return protocol::Params<Options>()
      .number("ratio", &Options::ratio, {.exclusive_minimum = 0.0, .maximum = 1.0},
              "Share of the entries that is sent.")
      .flag("unbiased", &Options::unbiased,
            "Scale what is sent so that its expectation is the gradient; for use without a memory.")
      .choice("value_codec", &Options::value_codec, value_codec_names(),
              "How values are written: fp32, fp16 and bf16 are summed on the way, the others gathered.")
      .flag("check_unsent", &Options::check_unsent,
            "Fail on NaN and infinity also in entries that are not sent, for which all have to be read.");
}

Reduction RandomK::reduction() const {
  if (options_.value_codec == fp32_codec.name) return Reduction::sum;
  if (options_.value_codec == fp16_codec.name) return Reduction::sum_fp16;
  if (options_.value_codec == bf16_codec.name) return Reduction::sum_bf16;
  return Reduction::gather;
}

Traits RandomK::traits() const {
  return {.passes = {reduction()},
          .biased = !options_.unbiased || value_codec_named(options_.value_codec).error_bound > 0,
          .sparse = true,
          .selective = !options_.check_unsent,
          // Unbiased, the entries that are chosen must all arrive.
          .selects = reduction() == Reduction::gather && !options_.unbiased,
          .scales_draw = options_.unbiased,
          .mean_only = reduction() == Reduction::sum};
}

double RandomK::error_bound(std::uint64_t entries, const Round&) const {
  if (entries == 0) return 0;
  const auto length = static_cast<double>(Strata::longest(entries, entries_kept(options_.ratio, entries)));
  // Bare halves are not scaled by a power of two: values outside of their range may be lost.
  const double rounding = reduction() == Reduction::sum_fp16 ? 1 : value_codec_named(options_.value_codec).error_bound;
  if (!options_.unbiased) return 1 - (1 - rounding) / length;
  // Two errors that may be dependent: that of the draw, and that of rounding values whose squared norm is `length`
  // times that of the gradient in expectation.
  const double both = std::sqrt(length - 1) + std::sqrt(rounding * length);
  return both * both;
}

std::optional<WireBits> RandomK::expected_bits(at::IntArrayRef shape, const Round&) const {
  const std::uint64_t entries = entries_of(shape);
  // A sum is never larger than the dense tensor.
  if (entries == 0 || reduction() != Reduction::gather) return std::nullopt;
  const std::size_t bytes = value_codec_named(options_.value_codec).bytes(entries_kept(options_.ratio, entries));
  return WireBits{.gathered = 8 * static_cast<double>(bytes) / static_cast<double>(entries)};
}

Result<void> RandomK::draw(const at::Tensor& gradient, const Round& round) {
  selection_.clear();
  if (gradient.numel() == 0) return {};
  selection_.values.resize(entries_kept(options_.ratio, entries_of(gradient.sizes())));
  const auto finite =
      gradient.is_cpu() ? Result<bool>(draw_on_host(flat(gradient), round)) : draw_on_device(gradient, round);
  if (!finite) return finite.error();
  return *finite ? Result<void>() : non_finite(round, gradient);
}

Result<bool> RandomK::draw_on_device(const at::Tensor& gradient, const Round& round) {
  auto finite = device::draw(gradient, key_of_all(round), options_.unbiased, selection_.values);
  if (!finite || !*finite || !options_.check_unsent) return finite;
  return device::all_finite(gradient);
}

bool RandomK::draw_on_host(std::span<const float> values, const Round& round) {
  constexpr float largest = std::numeric_limits<float>::max();
  std::atomic<bool> finite = true;
  const auto take = [&](std::uint64_t first, std::uint64_t begin, std::uint64_t end, auto drawn) {
    if (options_.check_unsent) {
      // All entries are checked here, while they pass through the cache.
      if (!all_finite(values.subspan(begin, end - begin))) finite = false;
    } else {
      // Prefetching them all first makes reading entries that are far apart twice as fast.
      for (const Strata::Drawn& it : drawn) __builtin_prefetch(&values[it.position]);
    }
    const std::span<float> taken = std::span(selection_.values).subspan(first, drawn.size());
    for (std::size_t i = 0; i < drawn.size(); ++i) taken[i] = values[drawn[i].position];
    if (!all_finite(taken)) finite = false;
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      if (options_.unbiased) taken[i] *= static_cast<float>(drawn[i].length);
      taken[i] = std::clamp(taken[i], -largest, largest);
    }
  };
  Strata(round, values.size(), selection_.values.size()).parallel_for_batches(take);
  return finite;
}

Result<void> RandomK::do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) {
  if (auto drawn = draw(gradient, round); !drawn) return drawn;
  const std::uint64_t entries = entries_of(gradient.sizes());
  encoded_.of(round) = entries;
  const Reduction wanted = reduction();
  const float share = 1 / divisor(wanted, round);
  for (float& value : selection_.values) value *= share;
  const std::span<const float> sent = selection_.values;
  if (wanted == Reduction::gather) {
    const ValueCodec& codec = value_codec_named(options_.value_codec);
    const std::size_t bytes = codec.bytes(sent.size());
    PayloadWriter payload(out, Format::seeded, varint_bytes(entries) + 1 + bytes);
    *store_varint(payload.body().data(), entries) = static_cast<std::byte>(codec.id);
    codec.encode(sent, payload.body().last(bytes));
    payload.seal();
    return {};
  }
  const std::size_t before = out.size();
  out.resize(before + sent.size() * number_bytes(wanted));
  const std::span<std::byte> room = std::span(out).subspan(before);
  switch (wanted) {
    case Reduction::sum: fp32_codec.encode(sent, room); break;
    case Reduction::sum_fp16: write_rounded<Half>(sent, room); break;
    default: write_rounded<BFloat16>(sent, room); break;
  }
  return {};
}

Result<void> RandomK::check_entries(std::uint64_t entries, const Round& round) const {
  const std::optional<std::uint64_t>* known = encoded_.find(round);
  if (known == nullptr || *known == entries) return {};
  return Error(Errc::malformed,
               "a payload for " + std::to_string(**known) + " entries came for a tensor of " + std::to_string(entries));
}

Result<void> RandomK::read_values(BytesView payload, std::uint64_t entries, const Round& round,
                                  std::vector<float>& values) const {
  const std::size_t count = entries_kept(options_.ratio, entries);
  const Reduction wanted = reduction();
  BytesView numbers = payload;
  std::size_t due = count * number_bytes(wanted);
  const ValueCodec& codec = value_codec_named(options_.value_codec);
  if (wanted == Reduction::gather) {
    const auto opened = open_payload(payload, Format::seeded);
    if (!opened) return opened.error();
    numbers = *opened;
    const auto said = read_varint(numbers);
    if (!said || *said != entries || numbers.empty()) {
      return Error(Errc::malformed, "a seeded payload is not for a tensor of " + std::to_string(entries) + " entries");
    }
    if (std::to_integer<std::uint8_t>(numbers[0]) != codec.id) {
      return Error(Errc::unsupported, "a seeded payload has another value codec than " + options_.value_codec);
    }
    numbers = numbers.subspan(1);
    due = codec.bytes(count);
  } else if (auto checked = check_entries(entries, round); !checked) {
    return checked;
  }
  if (numbers.size() != due) {
    return Error(Errc::malformed, "randomk: values of " + std::to_string(numbers.size()) + " bytes came where " +
                                      std::to_string(due) + " are due");
  }
  values.resize(count);
  switch (wanted) {
    case Reduction::sum_fp16: read_rounded<Half>(numbers, values); break;
    case Reduction::sum_bf16: read_rounded<BFloat16>(numbers, values); break;
    default: codec.decode(numbers, values); break;
  }
  if (!all_finite(values)) return Error(Errc::malformed, "a payload holds a value that is not a number");
  return {};
}

Result<void> RandomK::read(BytesView payload, std::uint64_t entries, const Round& round, Selection& out) const {
  out.positions.clear();
  auto got = read_values(payload, entries, round, out.values);
  if (got) place(round, entries, out);
  return got;
}

/// Finds out where the values are from.
void RandomK::place(const Round& round, std::uint64_t entries, Selection& out) {
  out.positions.resize(out.values.size());
  if (entries == 0) return;
  const auto take = [&](std::uint64_t first, std::uint64_t, std::uint64_t, auto drawn) {
    for (std::size_t i = 0; i < drawn.size(); ++i) out.positions[first + i] = drawn[i].position;
  };
  Strata(round, entries, out.values.size()).parallel_for_batches(take);
}

Result<void> RandomK::do_select(const at::Tensor& gradient, const Round& round, Selection& chosen) {
  if (auto drawn = draw(gradient, round); !drawn) return drawn;
  std::swap(chosen, selection_);
  place(round, entries_of(gradient.sizes()), chosen);
  return {};
}

void RandomK::write_part(Selection& chosen, std::uint32_t entries, Bytes& out) {
  compressors::write_part(chosen, entries, {.index = "auto", .value = options_.value_codec}, out);
}

Result<void> RandomK::read_part(BytesView payload, std::uint32_t entries, Selection& out) {
  return read_sparse(payload, entries, out);
}

Result<void> RandomK::do_decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum) {
  const std::span<float> target = flat(sum);
  if (auto got = read(payload, target.size(), round, read_); !got) return got;
  add_selection(weight * divisor(reduction(), round), read_, target);
  return {};
}

Result<void> RandomK::do_decode_add_on_device(BytesView payload, const Round& round, float weight, at::Tensor& sum) {
  if (auto got = read(payload, entries_of(sum.sizes()), round, read_); !got) return got;
  return device::add_selection(weight * divisor(reduction(), round), read_, sum);
}

Result<void> RandomK::read_entries(BytesView payload, const Round& round, std::uint64_t entries, Selection& out) const {
  if (auto got = read(payload, entries, round, out); !got) return got;
  const float factor = divisor(reduction(), round);
  for (float& value : out.values) value *= factor;
  return {};
}

}  // namespace weir::compressors
