#include "compressors/quantizers/quantizer.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/errc.hpp"
#include "compressors/codecs/varint.hpp"
#include "compressors/flat.hpp"
#include "compressors/non_finite.hpp"
#include "compressors/parallel_loops.hpp"

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

Result<std::shared_ptr<const device::Codes>> Quantizer::begin_codes(std::span<const at::Tensor> tensors,
                                                                    std::span<const Round> rounds) {
  std::vector<std::size_t> bytes;
  for (const at::Tensor& tensor : tensors) bytes.push_back(code_bytes(extent_of(tensor.sizes())) - head_bytes());
  auto codes = device::Codes::make(tensors.front(), bytes);
  if (!codes) return codes.error();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    auto begun = begin_on_device(tensors[i], extent_of(tensors[i].sizes()), rounds[i], codes->place(i));
    if (!begun) return begun.error();
  }
  if (auto begun = codes->begin_down(); !begun) return begun.error();
  return std::make_shared<const device::Codes>(std::move(*codes));
}

Result<void> Quantizer::do_begin(std::span<const at::Tensor> gradients, std::span<const Round> rounds) {
  std::vector<at::Tensor> tensors;
  std::vector<Round> of_tensors;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!begins_ahead(rounds[i])) continue;
    tensors.push_back(gradients[i]);
    of_tensors.push_back(rounds[i]);
  }
  if (tensors.empty()) return {};
  const auto codes = begin_codes(tensors, of_tensors);
  if (!codes) return codes.error();
  for (std::size_t i = 0; i < tensors.size(); ++i) begun_.put(of_tensors[i], {*codes, i});
  return {};
}

Result<bool> Quantizer::write_from_device(const at::Tensor& values, const Extent& extent, const Round& round,
                                          std::span<std::byte> code) {
  Coming coming = begun_.take(round);
  if (coming.codes == nullptr) {
    auto codes = begin_codes(std::span(&values, 1), std::span(&round, 1));
    if (!codes) return codes.error();
    coming = {std::move(*codes), 0};
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

Result<void> Quantizer::do_decode_add_on_device(BytesView payload, const Round&, float weight, at::Tensor& sum) {
  const Extent extent = extent_of(sum.sizes());
  const auto code = open(payload, extent);
  if (!code) return code.error();
  return extent.entries == 0 ? Result<void>() : read_add_on_device(*code, extent, weight, sum);
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
