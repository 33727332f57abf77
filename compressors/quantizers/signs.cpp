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

Error dirty_padding() { return Error(Errc::malformed, "bits are set behind the last sign"); }

}  // namespace

void SignVote::conclude(at::Tensor& mean, const Round& round) {
  // One vote contributes 1 / world to the mean: a magnitude below half of that is a tie with a rounding error.
  take_majority(0.5F / static_cast<float>(round.world), key_beside_ranks(round), flat(mean));
}

double SignVote::error_bound(std::uint64_t, const Round&) const { return std::numeric_limits<double>::infinity(); }

std::size_t SignVote::code_bytes(const Extent& extent) const { return sign_bytes(extent.entries); }

Result<void> SignVote::read_add(BytesView code, const Extent&, float weight, std::size_t begin, std::size_t end,
                                std::span<float> sum) const {
  if (end == sum.size() && !padding_is_zero(code, sum.size(), 1)) return dirty_padding();
  add_by_sign(signs_of(code, begin, end), weight, -weight, sum.subspan(begin, end - begin));
  return {};
}

Result<void> SignVote::read_add_on_device(BytesView code, const Extent&, float weight, at::Tensor& sum) const {
  return device::add_by_sign(code, weight, -weight, sum);
}

double TwoValues::error_bound(std::uint64_t entries, const Round&) const {
  return entries == 0 ? 0 : 1 - 1 / static_cast<double>(entries);
}

bool TwoValues::write(std::span<const float> values, const Extent& extent, const Round&, std::span<std::byte> code) {
  SignSums sums;
  if (!write_signs(values, code.subspan(values_bytes), sums)) return false;
  store(values_of(sums, extent.entries), code);
  return true;
}

Result<bool> TwoValues::write_on_device(const at::Tensor& values, const Extent& extent, const Round&,
                                        std::span<std::byte> code) {
  SignSums sums;
  auto written = device::write_signs(values, code.subspan(values_bytes), sums);
  store(values_of(sums, extent.entries), code);
  return written;
}

void TwoValues::store(const Values& values, std::span<std::byte> code) {
  store_f32(code.data(), values.positive);
  store_f32(code.data() + sizeof(float), values.negative);
}

std::size_t TwoValues::code_bytes(const Extent& extent) const { return values_bytes + sign_bytes(extent.entries); }

Result<void> TwoValues::read_add(BytesView code, const Extent&, float weight, std::size_t begin, std::size_t end,
                                 std::span<float> sum) const {
  const float positive = load_f32(code.data());
  const float negative = load_f32(code.data() + sizeof(float));
  if (!std::isfinite(positive) || !std::isfinite(negative)) {
    return Error(Errc::malformed, "a payload of two values has one that is not finite");
  }
  const BytesView bits = code.subspan(values_bytes);
  if (end == sum.size() && !padding_is_zero(bits, sum.size(), 1)) return dirty_padding();
  add_by_sign(signs_of(bits, begin, end), weight * positive, weight * negative, sum.subspan(begin, end - begin));
  return {};
}

Result<void> TwoValues::read_add_on_device(BytesView code, const Extent&, float weight, at::Tensor& sum) const {
  const float positive = load_f32(code.data());
  const float negative = load_f32(code.data() + sizeof(float));
  return device::add_by_sign(code.subspan(values_bytes), weight * positive, weight * negative, sum);
}

}  // namespace weir::compressors
