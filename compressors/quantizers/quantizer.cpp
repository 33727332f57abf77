#include "compressors/quantizers/quantizer.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/errc.hpp"
#include "compressors/codecs/varint.hpp"
#include "compressors/flat.hpp"
#include "compressors/non_finite.hpp"
#include "compressors/parallel_loops.hpp"
#include "compressors/round_key.hpp"

namespace weir::compressors {
namespace {

constexpr std::size_t block_entries = 16384;  ///< their sum fits into a second-level cache beside codes

Extent extent_of(at::IntArrayRef shape) {
  return {entries_of(shape), shape.size() > 1 ? static_cast<std::uint64_t>(shape[0]) : std::uint64_t{1}};
}

}  // namespace

std::optional<WireBits> Quantizer::expected_bits(at::IntArrayRef shape, const Round&) const {
  const Extent extent = extent_of(shape);
  if (extent.entries == 0) return std::nullopt;
  return WireBits{.gathered = 8 * static_cast<double>(code_bytes(extent)) / static_cast<double>(extent.entries)};
}

auto Quantizer::begin_codes(std::span<const at::Tensor> tensors, std::span<const Round> rounds,
                            std::span<const std::size_t> bytes,
                            FunctionRef<Result<void>(std::span<const device::ToCode>)> begin)
    -> Result<std::vector<Coming>> {
  auto made = device::Codes::make(tensors.front(), bytes);
  if (!made) return made.error();
  const auto codes = std::make_shared<device::Codes>(std::move(*made));
  std::vector<device::ToCode> to_code;
  std::vector<Coming> coming;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    to_code.push_back({tensors[i], extent_of(tensors[i].sizes()).channels, key_of_rank(rounds[i]), codes->place(i)});
    coming.push_back({codes, i});
  }
  auto begun = begin(to_code);
  if (begun) begun = codes->begin_down();
  return begun ? Result<std::vector<Coming>>(std::move(coming)) : begun.error();
}

auto Quantizer::begin_codes(std::span<const at::Tensor> tensors, std::span<const Round> rounds)
    -> Result<std::vector<Coming>> {
  std::vector<std::size_t> bytes;
  for (const at::Tensor& tensor : tensors) bytes.push_back(code_bytes(extent_of(tensor.sizes())) - head_bytes());
  return begin_codes(tensors, rounds, bytes,
                     [&](std::span<const device::ToCode> to_code) { return begin_on_device(to_code, rounds); });
}

Result<void> Quantizer::do_begin(std::span<const at::Tensor> gradients, std::span<const Round> rounds) {
  auto coming = begin_codes(gradients, rounds);
  if (!coming) return coming.error();
  for (std::size_t i = 0; i < gradients.size(); ++i) begun_.put(rounds[i], std::move((*coming)[i]));
  return {};
}

Result<bool> Quantizer::write_from_device(const at::Tensor& values, const Extent& extent, const Round& round,
                                          std::span<std::byte> code) {
  Coming coming = begun_.take(round);
  if (coming.codes == nullptr) {
    auto begun = begin_codes(std::span(&values, 1), std::span(&round, 1));
    if (!begun) return begun.error();
    coming = std::move(begun->front());
  }
  const auto read = coming.codes->read(coming.index, code.subspan(head_bytes()));
  if (!read) return read.error();
  write_head(extent, read->sums, code.first(head_bytes()));
  return read->finite;
}

Result<void> Quantizer::do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) {
  const Extent extent = extent_of(gradient.sizes());
  const std::size_t bytes = extent.entries == 0 ? 0 : code_bytes(extent);
  PayloadWriter payload(out, format(), varint_bytes(extent.entries) + bytes);
  store_varint(payload.body().data(), extent.entries);
  if (extent.entries > 0) {
    const auto code = payload.body().last(bytes);
    const auto written = gradient.is_cpu() ? Result<bool>(write(flat(gradient), extent, round, code))
                                           : write_from_device(gradient, extent, round, code);
    if (!written) return written.error();
    if (!*written) return non_finite(round, gradient);
  }
  payload.seal(parallel_for_pieces);
  return {};
}

Result<BytesView> Quantizer::open(BytesView payload, const Extent& extent) const {
  const auto opened = open_payload(payload, format(), parallel_for_pieces);
  if (!opened) return opened.error();
  BytesView code = *opened;
  const auto entries = read_varint(code);
  if (!entries) return Error(Errc::malformed, "a payload's head is cut off");
  if (*entries != extent.entries) {
    return Error(Errc::malformed, "a payload for " + std::to_string(*entries) + " entries came for a tensor of " +
                                      std::to_string(extent.entries));
  }
  const std::size_t due = extent.entries == 0 ? 0 : code_bytes(extent);
  if (code.size() != due) {
    return Error(Errc::malformed, std::string(name()) + ": a code of " + std::to_string(code.size()) +
                                      " bytes came where " + std::to_string(due) + " are due");
  }
  if (extent.entries > 0) {
    if (auto checked = check(code, extent); !checked) return checked.error();
  }
  return code;
}

Result<void> Quantizer::do_decode_add(BytesView payload, const Round&, float weight, at::Tensor& sum) {
  const Extent extent = extent_of(sum.sizes());
  const auto code = open(payload, extent);
  if (!code) return code.error();
  codes_.assign(1, *code);
  read_add_codes(extent, weight, flat(sum));
  return {};
}

Result<void> Quantizer::do_decode_add_on_device(BytesView payload, const Round& round, float weight, at::Tensor& sum) {
  std::vector<device::ToAdd> waiting;
  auto read = do_decode_add_later(payload, round, weight, sum, waiting);
  return read ? decode_add_all(std::move(waiting)) : read;
}

Result<void> Quantizer::do_decode_add_later(BytesView payload, const Round&, float weight, at::Tensor& sum,
                                            std::vector<device::ToAdd>& waiting) {
  const Extent extent = extent_of(sum.sizes());
  const auto code = open(payload, extent);
  if (!code) return code.error();
  if (extent.entries > 0) waiting.push_back({*code, extent.channels, weight, -weight, sum});
  return {};
}

Result<void> Quantizer::decode_add_all(std::vector<device::ToAdd> waiting) {
  std::vector<std::vector<device::ToAdd>> turns;  // of the codes for each sum the first, then the second, and so on
  std::unordered_map<const void*, std::size_t> turn_of_sum;
  for (device::ToAdd& code : waiting) {
    const std::size_t turn = turn_of_sum[code.sum.data_ptr()]++;
    if (turn == turns.size()) turns.emplace_back();
    turns[turn].push_back(std::move(code));
  }
  for (const auto& codes : turns) {
    if (auto added = read_add_on_device(codes); !added) return added;
  }
  return {};
}

Result<void> Quantizer::do_decode_add_ranks(std::span<const BytesView> payloads, const Round&, float weight,
                                            at::Tensor& sum) {
  const Extent extent = extent_of(sum.sizes());
  codes_.clear();
  for (const BytesView payload : payloads) {
    const auto code = open(payload, extent);
    if (!code) return code.error().within("rank " + std::to_string(codes_.size()));
    codes_.push_back(*code);
  }
  read_add_codes(extent, weight, flat(sum));
  return {};
}

/// Adds all codes, one after the other, to each entry. A thread does so for a range of entries, and there for a block
/// after the other, so that the sum of a block stays in the cache while codes are added to it.
void Quantizer::read_add_codes(const Extent& extent, float weight, std::span<float> sum) const {
  const std::size_t block = (block_entries + unit() - 1) / unit() * unit();
  parallel_for_ranges(extent.entries, block, [&](std::size_t range_begin, std::size_t range_end) {
    for (std::size_t begin = range_begin; begin < range_end; begin += block) {
      const std::size_t end = std::min(begin + block, range_end);
      for (const BytesView code : codes_) read_add(code, extent, weight, begin, end, sum);
    }
  });
}

}  // namespace weir::compressors
