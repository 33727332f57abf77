#include "compressors/sparsifiers/cocktail.hpp"

#include <algorithm>
#include <atomic>

#include "compressors/codecs/sparse.hpp"
#include "compressors/device/codes.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/arithmetic.hpp"
#include "compressors/non_finite.hpp"
#include "compressors/parallel_loops.hpp"
#include "compressors/sparsifiers/codec_params.hpp"
#include "compressors/sparsifiers/strata.hpp"
#include "compressors/values.hpp"

namespace weir::compressors {
namespace {

SparseExtent extent_of(std::uint64_t entries, std::size_t survivors) {
  return {Format::survivors, static_cast<std::uint32_t>(entries), static_cast<std::uint32_t>(survivors)};
}

}  // namespace

protocol::Params<Cocktail::Options> Cocktail::params() {
  return with_codecs(protocol::Params<Options>()
                         .number("ratio", &Options::ratio, {.exclusive_minimum = 0.0, .maximum = 1.0},
                                 "Share of the entries that survives the random draw.")
                         .number("top", &Options::top, {.exclusive_minimum = 0.0, .maximum = 1.0},
                                 "Share of the survivors that is sent: those of largest magnitude."));
}

double Cocktail::error_bound(std::uint64_t entries, const Round&) const {
  if (entries == 0) return 0;
  const std::size_t survivors = entries_kept(options_.ratio, entries);
  const double drawn = 1 / static_cast<double>(Strata::longest(entries, survivors));
  const double kept = static_cast<double>(entries_kept(options_.top, survivors)) / static_cast<double>(survivors);
  return 1 - drawn * kept * (1 - value_codec_named(options_.codecs.value).error_bound);
}

std::optional<WireBits> Cocktail::expected_bits(at::IntArrayRef shape, const Round&) const {
  const std::uint64_t entries = entries_of(shape);
  if (entries == 0) return std::nullopt;
  const std::size_t survivors = entries_kept(options_.ratio, entries);
  const std::size_t count = entries_kept(options_.top, survivors);
  return WireBits{.gathered = expected_sparse_bits(options_.codecs, count, survivors, entries)};
}

Result<void> Cocktail::choose(const at::Tensor& gradient, const Round& round, Selection& chosen) {
  survivors_.resize(entries_kept(options_.ratio, entries_of(gradient.sizes())));
  chosen.clear();
  if (gradient.numel() == 0) return {};
  const auto finite =
      gradient.is_cpu() ? Result<bool>(draw_on_host(flat(gradient), round)) : draw_on_device(gradient, round);
  if (!finite) return finite.error();
  if (!*finite) return non_finite(round, gradient);
  select_largest_by_sample(survivors_, {}, entries_kept(options_.top, survivors_.size()), chosen);
  return {};
}

Result<bool> Cocktail::draw_on_device(const at::Tensor& gradient, const Round& round) {
  auto finite = device::draw(gradient, key_of_all(round), /*is_unbiased=*/false, survivors_);
  if (!finite || !*finite) return finite;
  return device::all_finite(gradient);
}

bool Cocktail::draw_on_host(std::span<const float> values, const Round& round) {
  std::atomic<bool> finite = true;
  const auto draw = [&](std::uint64_t first, std::uint64_t begin, std::uint64_t end, auto drawn) {
    if (!all_finite(values.subspan(begin, end - begin))) finite = false;
    for (std::size_t i = 0; i < drawn.size(); ++i) survivors_[first + i] = values[drawn[i].position];
  };
  Strata(round, values.size(), survivors_.size()).parallel_for_batches(draw);
  return finite;
}

void Cocktail::place(Selection& selection, const Round& round, std::uint64_t entries) const {
  if (selection.positions.empty()) return;
  const std::size_t survivors = entries_kept(options_.ratio, entries);
  std::size_t next = 0;  // index in the selection of the next position to convert
  Strata(round, entries, survivors).for_each_batch([&](std::uint64_t first, std::uint64_t, std::uint64_t, auto drawn) {
    for (; next < selection.size() && selection.positions[next] < first + drawn.size(); ++next) {
      selection.positions[next] = drawn[selection.positions[next] - first].position;
    }
  });
}

Result<void> Cocktail::do_select(const at::Tensor& gradient, const Round& round, Selection& chosen) {
  if (auto done = choose(gradient, round, chosen); !done) return done;
  place(chosen, round, entries_of(gradient.sizes()));
  return {};
}

void Cocktail::write_part(Selection& chosen, std::uint32_t entries, Bytes& out) {
  compressors::write_part(chosen, entries, options_.codecs, out, parallel_parts(coding_work * chosen.size()));
}

Result<void> Cocktail::read_part(BytesView payload, std::uint32_t entries, Selection& out) {
  return read_sparse(payload, entries, out);
}

Result<void> Cocktail::do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) {
  if (auto done = choose(gradient, round, selection_); !done) return done;
  write_sparse(selection_, extent_of(entries_of(gradient.sizes()), survivors_.size()),
               choose_index_codec(options_.codecs.index, selection_.positions, survivors_.size()),
               value_codec_named(options_.codecs.value), out, parallel_parts(coding_work * selection_.size()));
  return {};
}

Result<void> Cocktail::read_entries(BytesView payload, const Round& round, std::uint64_t entries,
                                    Selection& out) const {
  const std::size_t survivors = entries_kept(options_.ratio, entries);
  auto got = read_sparse(payload, extent_of(entries, survivors), out);
  if (got) place(out, round, entries);
  return got;
}

Result<void> Cocktail::do_decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum) {
  const std::span<float> target = flat(sum);
  if (auto got = read_entries(payload, round, target.size(), read_); !got) return got;
  add_selection(weight, read_, target);
  return {};
}

}  // namespace weir::compressors
