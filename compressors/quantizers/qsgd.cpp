#include "compressors/quantizers/qsgd.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>

#include "base/errc.hpp"
#include "compressors/codecs/varint.hpp"
#include "compressors/device/codes.hpp"
#include "compressors/kernels/pack.hpp"
#include "compressors/kernels/prefetch.hpp"
#include "compressors/kernels/quantization/quantize.hpp"
#include "compressors/kernels/quantization/signs.hpp"
#include "compressors/kernels/random/random.hpp"
#include "compressors/kernels/selection/selection.hpp"
#include "compressors/parallel_loops.hpp"
#include "compressors/round_key.hpp"

namespace weir::compressors {
namespace {

constexpr std::size_t bytes_of_head = 1 + sizeof(std::uint32_t);

/// Buckets are written and read in parts of this many entries. The codes of a part fill whole bytes for any number of
/// bits, and use whole groups of random words.
constexpr std::size_t part_max = 1024;
constexpr std::int64_t bucket_unit = 64;

/// The parts of a bucket's code.
template <class Byte>
struct BucketCode {
  BucketCode(std::span<Byte> code, std::size_t entries, unsigned bits)
      : norm(code.first(sizeof(float))),
        levels(code.subspan(norm.size(), packed_bytes(entries, bits))),
        signs(code.subspan(norm.size() + levels.size(), sign_bytes(entries))) {}

  std::span<Byte> norm;
  std::span<Byte> levels;
  std::span<Byte> signs;
};

}  // namespace

protocol::Params<Qsgd::Options> Qsgd::params() {
  return protocol::Params<Options>()
      .integer("bits", &Options::bits, {.minimum = 1.0, .maximum = 8.0},
               "Bits of a level; the sign takes one more. 2^bits - 1 levels above zero.")
      .integer("bucket", &Options::bucket,
               {.minimum = double{bucket_unit}, .maximum = 0x1p20, .multiple_of = bucket_unit},
               "Entries that share a norm.");
}

double Qsgd::error_bound(std::uint64_t entries, const Round&) const {
  const auto d = static_cast<double>(std::min<std::uint64_t>(entries, bucket_));
  const double s = most();
  return std::min(d / (4 * s * s), std::sqrt(d) / s);
}

std::size_t Qsgd::bucket_bytes(std::size_t entries) const {
  return sizeof(float) + packed_bytes(entries, bits_) + sign_bytes(entries);
}

std::size_t Qsgd::code_bytes(const Extent& extent) const {
  const std::size_t rest = extent.entries % bucket_;
  return bytes_of_head + extent.entries / bucket_ * bucket_bytes(bucket_) + (rest > 0 ? bucket_bytes(rest) : 0);
}

std::size_t Qsgd::head_bytes() const { return bytes_of_head; }

void Qsgd::write_head(const Extent&, const SignSums&, std::span<std::byte> head) const {
  head[0] = static_cast<std::byte>(bits_);
  store_u32(head.data() + 1, static_cast<std::uint32_t>(bucket_));
}

bool Qsgd::write(std::span<const float> values, const Extent& extent, const Round& round, std::span<std::byte> code) {
  write_head(extent, {}, code.first(bytes_of_head));
  const std::span<std::byte> buckets = code.subspan(bytes_of_head);
  const RandomKey key = key_of_rank(round);
  std::atomic<bool> finite = true;
  parallel_for_ranges(values.size(), bucket_, [&](std::size_t begin, std::size_t end) {
    std::array<std::uint32_t, part_max> words;
    std::array<std::uint8_t, part_max> levels;
    for (std::size_t start = begin; start < end && finite; start += bucket_) {
      const auto bucket = values.subspan(start, std::min(bucket_, end - start));
      const auto place = buckets.subspan(start / bucket_ * bucket_bytes(bucket_), bucket_bytes(bucket.size()));
      const BucketCode<std::byte> to(place, bucket.size(), bits_);
      prefetch_next(values, start, bucket_);
      const Size size = size_of(bucket);
      if (size.magnitude >= magnitude_infinite) {
        finite = false;
        return;
      }
      const float norm = norm_of(size.squares);
      store_f32(to.norm.data(), norm);
      write_signs(bucket, to.signs);
      for (std::size_t at = 0; at < bucket.size(); at += part_max) {
        const auto part = bucket.subspan(at, std::min(part_max, bucket.size() - at));
        const auto part_words = std::span(words).first(part.size());
        const auto part_levels = std::span(levels).first(part.size());
        if (norm > 0) {
          fill_random(key, start + at, part_words);
          write_levels(part, part_words, norm, most(), part_levels);
        } else {
          std::ranges::fill(part_levels, std::uint8_t{0});
        }
        pack(part_levels, bits_, to.levels.subspan(packed_bytes(at, bits_), packed_bytes(part.size(), bits_)));
      }
    }
  });
  return finite;
}

Result<void> Qsgd::begin_on_device(std::span<const device::ToCode> tensors, std::span<const Round>) {
  return device::begin_levels(tensors, bits_, bucket_);
}

Result<void> Qsgd::check(BytesView code, const Extent& extent) const {
  if (std::to_integer<unsigned>(code[0]) != bits_ || load_u32(code.data() + 1) != bucket_) {
    return Error(Errc::malformed, "qsgd: levels of " + std::to_string(std::to_integer<unsigned>(code[0])) +
                                      " bits in buckets of " + std::to_string(load_u32(code.data() + 1)) +
                                      " came where " + std::to_string(bits_) + " and " + std::to_string(bucket_) +
                                      " are due");
  }
  const BytesView buckets = code.subspan(bytes_of_head);
  std::atomic<bool> sound = true;
  parallel_for_ranges(extent.entries, bucket_, [&](std::size_t begin, std::size_t end) {
    for (std::size_t start = begin; start < end; start += bucket_) {
      const std::size_t entries = std::min(bucket_, end - start);
      const auto place = buckets.subspan(start / bucket_ * bucket_bytes(bucket_), bucket_bytes(entries));
      const BucketCode<const std::byte> from(place, entries, bits_);
      const float norm = load_f32(from.norm.data());
      if (!std::isfinite(norm) || norm < 0 || !padding_is_zero(from.levels, entries, bits_) ||
          !padding_is_zero(from.signs, entries, 1)) {
        sound = false;
      }
    }
  });
  if (sound) return {};
  return Error(Errc::malformed, "qsgd: a bucket has a norm that is none, or bits behind its last entry");
}

void Qsgd::read_add(BytesView code, const Extent&, float weight, std::size_t begin, std::size_t end,
                    std::span<float> sum) const {
  const BytesView buckets = code.subspan(bytes_of_head);
  std::array<std::uint8_t, part_max> levels;
  for (std::size_t start = begin; start < end; start += bucket_) {
    const auto bucket = sum.subspan(start, std::min(bucket_, end - start));
    const auto place = buckets.subspan(start / bucket_ * bucket_bytes(bucket_), bucket_bytes(bucket.size()));
    const BucketCode<const std::byte> from(place, bucket.size(), bits_);
    const float norm = load_f32(from.norm.data());
    prefetch_next(sum, start, bucket_);
    for (std::size_t at = 0; at < bucket.size(); at += part_max) {
      const auto part = bucket.subspan(at, std::min(part_max, bucket.size() - at));
      const auto part_levels = std::span(levels).first(part.size());
      unpack(from.levels.subspan(packed_bytes(at, bits_), packed_bytes(part.size(), bits_)), bits_, part_levels);
      add_levels(part_levels, from.signs.subspan(at / 8, sign_bytes(part.size())), norm, most(), weight, part);
    }
  }
}

Result<void> Qsgd::read_add_on_device(std::span<const device::ToAdd> codes) const {
  std::vector<device::ToAdd> buckets(codes.begin(), codes.end());
  for (device::ToAdd& add : buckets) add.code = add.code.subspan(bytes_of_head);
  return device::add_levels(buckets, bits_, bucket_);
}

}  // namespace weir::compressors
