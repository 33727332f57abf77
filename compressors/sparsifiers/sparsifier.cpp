#include "compressors/sparsifiers/sparsifier.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "compressors/codecs/index_codec.hpp"
#include "compressors/codecs/sparse.hpp"
#include "compressors/codecs/value_codec.hpp"
#include "compressors/device/device_values.hpp"
#include "compressors/flat.hpp"
#include "compressors/parallel_loops.hpp"

namespace weir::compressors {

Result<void> Sparsifier::do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) {
  if (auto chosen = do_select(gradient, round, selection_); !chosen) return chosen;
  const auto entries = static_cast<std::uint32_t>(gradient.numel());
  write_sparse(selection_, {Format::sparse, entries, entries},
               choose_index_codec(codecs_.index, selection_.positions, entries), value_codec_named(codecs_.value), out,
               parallel_parts(coding_work * selection_.size()));
  return {};
}

Result<std::vector<device::Selecting>> Sparsifier::begin_choice(std::span<const at::Tensor> gradients,
                                                                std::span<const Round>) const {
  return std::vector<device::Selecting>(gradients.size());
}

Result<void> Sparsifier::do_begin(std::span<const at::Tensor> gradients, std::span<const Round> rounds) {
  auto selecting = begin_choice(gradients, rounds);
  if (!selecting) return selecting.error();
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if ((*selecting)[i]) begun_.put(rounds[i], std::move((*selecting)[i]));
  }
  return {};
}

Result<void> Sparsifier::do_select(const at::Tensor& gradient, const Round& round, Selection& chosen) {
  chosen.clear();
  if (gradient.numel() == 0) return {};
  auto done = gradient.is_cpu() ? choose(HostValues(flat(gradient), round.peaks), round, chosen)
                                : choose(device::DeviceValues(gradient, round.bins, begun_.take(round)), round, chosen);
  if (done && traits().thins && round.share < 1 && chosen.size() > 0) {
    trim(chosen, cut_at_rank(chosen.values, entries_kept(round.share, chosen.size())));
  }
  return done;
}

void Sparsifier::write_part(Selection& chosen, std::uint32_t entries, Bytes& out) {
  compressors::write_part(chosen, entries, codecs_, out, parallel_parts(coding_work * chosen.size()));
}

Result<void> Sparsifier::read_part(BytesView payload, std::uint32_t entries, Selection& out) {
  return read_sparse(payload, entries, out);
}

Result<void> Sparsifier::do_decode_add(BytesView payload, const Round&, float weight, at::Tensor& sum) {
  const std::span<float> target = flat(sum);
  const auto got = read_sparse(payload, target.size(), read_);
  if (!got) return got.error();
  add_selection(weight, read_, target);
  return {};
}

Result<void> Sparsifier::read_entries(BytesView payload, const Round&, std::uint64_t entries, Selection& out) const {
  return read_sparse(payload, entries, out);
}

Result<void> Sparsifier::own_entries(BytesView payload, const Round&, std::uint64_t, Selection& own) {
  std::swap(own, selection_);  // do_encode() has chosen them
  const ValueCodec& codec = value_codec_named(codecs_.value);
  if (codec.error_bound > 0) codec.decode(payload.last(codec.bytes(own.size())), own.values);
  return {};
}

std::optional<std::size_t> Sparsifier::expected_count(std::uint64_t, const Round&) const { return std::nullopt; }

std::optional<WireBits> Sparsifier::expected_bits(at::IntArrayRef shape, const Round& round) const {
  const std::uint64_t entries = entries_of(shape);
  if (entries == 0) return std::nullopt;
  const auto count = expected_count(entries, round);
  if (!count) return std::nullopt;
  return WireBits{.gathered = expected_sparse_bits(codecs_, *count, entries, entries)};
}

double Sparsifier::bound_for_share(double share) const {
  return 1 - share * (1 - value_codec_named(codecs_.value).error_bound);
}

double expected_sparse_bits(const SparseCodecs& codecs, std::size_t count, std::uint64_t among, std::uint64_t entries) {
  const double share = static_cast<double>(count) / static_cast<double>(among);
  const double positions = static_cast<double>(count) * expected_position_bits(codecs.index, share);
  const double values = 8 * static_cast<double>(value_codec_named(codecs.value).bytes(count));
  return (positions + values) / static_cast<double>(entries);
}

std::size_t entries_kept(double ratio, std::uint64_t entries) {
  const auto kept = static_cast<std::size_t>(std::ceil(ratio * static_cast<double>(entries)));
  return std::clamp<std::size_t>(kept, entries > 0 ? 1 : 0, entries);
}

}  // namespace weir::compressors
