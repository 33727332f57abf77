#include "compressors/quantizers/signs.hpp"

#include <cmath>
#include <limits>

#include "base/errc.hpp"
#include "compressors/codecs/varint.hpp"
#include "compressors/device/codes.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/pack.hpp"
#include "compressors/round_key.hpp"

namespace weir::compressors {
namespace {

constexpr std::size_t values_bytes = 2 * sizeof(float);

/// The bits of the entries from `begin`, a multiple of 8, to `end`.
BytesView signs_of(BytesView bits, std::size_t begin, std::size_t end) {
  return bits.subspan(begin / 8, sign_bytes(end - begin));
}

/// One vote contributes 1 / world to the mean: a magnitude below half of that is a tie with a rounding error.
float least_of(const Round& round) { return 0.5F / static_cast<float>(round.world); }

Result<void> check_padding(BytesView bits, std::uint64_t entries) {
  if (padding_is_zero(bits, entries, 1)) return {};
  return Error(Errc::malformed, "bits are set behind the last sign");
}

}  // namespace

Result<void> SignVote::conclude(at::Tensor& mean, const Round& round) {
  if (!mean.is_cpu()) return conclude_all(std::span(&mean, 1), std::span(&round, 1));
  take_majority(least_of(round), key_beside_ranks(round), flat(mean));
  return {};
}

Result<void> SignVote::conclude_all(std::span<at::Tensor> means, std::span<const Round> rounds) {
  if (means.empty() || means.front().is_cpu()) return Quantizer::conclude_all(means, rounds);
  std::vector<RandomKey> coins;
  for (const Round& round : rounds) coins.push_back(key_beside_ranks(round));
  return device::take_majority(least_of(rounds.front()), coins, means);
}

double SignVote::error_bound(std::uint64_t, const Round&) const { return std::numeric_limits<double>::infinity(); }

std::size_t SignVote::code_bytes(const Extent& extent) const { return sign_bytes(extent.entries); }

Result<void> SignVote::check(BytesView code, const Extent& extent) const { return check_padding(code, extent.entries); }

void SignVote::read_add(BytesView code, const Extent&, float weight, std::size_t begin, std::size_t end,
                        std::span<float> sum) const {
  add_by_sign(signs_of(code, begin, end), weight, -weight, sum.subspan(begin, end - begin));
}

Result<void> SignVote::read_add_on_device(std::span<const device::ToAdd> codes) const {
  return device::add_by_sign(codes);
}

double TwoValues::error_bound(std::uint64_t entries, const Round&) const {
  return entries == 0 ? 0 : 1 - 1 / static_cast<double>(entries);
}

bool TwoValues::write(std::span<const float> values, const Extent& extent, const Round&, std::span<std::byte> code) {
  SignSums sums;
  if (!write_signs(values, code.subspan(values_bytes), sums)) return false;
  write_head(extent, sums, code.first(values_bytes));
  return true;
}

Result<void> TwoValues::begin_on_device(std::span<const device::ToCode> tensors, std::span<const Round>) {
  return device::begin_signs(tensors);
}

std::size_t TwoValues::head_bytes() const { return values_bytes; }

void TwoValues::write_head(const Extent& extent, const SignSums& sums, std::span<std::byte> head) const {
  const Values values = values_of(sums, extent.entries);
  store_f32(head.data(), values.positive);
  store_f32(head.data() + sizeof(float), values.negative);
}

std::size_t TwoValues::code_bytes(const Extent& extent) const { return values_bytes + sign_bytes(extent.entries); }

Result<void> TwoValues::check(BytesView code, const Extent& extent) const {
  if (!std::isfinite(load_f32(code.data())) || !std::isfinite(load_f32(code.data() + sizeof(float)))) {
    return Error(Errc::malformed, "a payload of two values has one that is not finite");
  }
  return check_padding(code.subspan(values_bytes), extent.entries);
}

void TwoValues::read_add(BytesView code, const Extent&, float weight, std::size_t begin, std::size_t end,
                         std::span<float> sum) const {
  const float positive = load_f32(code.data());
  const float negative = load_f32(code.data() + sizeof(float));
  const BytesView bits = signs_of(code.subspan(values_bytes), begin, end);
  add_by_sign(bits, weight * positive, weight * negative, sum.subspan(begin, end - begin));
}

Result<void> TwoValues::read_add_on_device(std::span<const device::ToAdd> codes) const {
  std::vector<device::ToAdd> signs(codes.begin(), codes.end());
  for (device::ToAdd& add : signs) {
    const float weight = add.weight;
    add.weight = weight * load_f32(add.code.data());
    add.negative = weight * load_f32(add.code.data() + sizeof(float));
    add.code = add.code.subspan(values_bytes);
  }
  return device::add_by_sign(signs);
}

}  // namespace weir::compressors
