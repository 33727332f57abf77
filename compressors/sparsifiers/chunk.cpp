#include "compressors/sparsifiers/chunk.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/errc.hpp"
#include "compressors/codecs/value_codec.hpp"
#include "compressors/device/codes.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/arithmetic.hpp"
#include "compressors/kernels/selection/exceedances.hpp"
#include "compressors/kernels/selection/selection.hpp"
#include "compressors/non_finite.hpp"
#include "compressors/parallel_loops.hpp"
#include "compressors/sparsifiers/sparsifier.hpp"
#include "compressors/sparsifiers/warmup_params.hpp"

namespace weir::compressors {

protocol::Params<Chunk::Options> Chunk::params() {
  return with_warmup(protocol::Params<Options>()
                         .integer("chunk", &Options::chunk, {.minimum = 16.0, .maximum = 0x1p20}, "Entries of a chunk.")
                         .number("ratio", &Options::ratio, {.exclusive_minimum = 0.0, .maximum = 1.0},
                                 "Share of the chunks that is sent after the warm-up."));
}

double Chunk::error_bound(std::uint64_t entries, const Round& round) const {
  if (entries == 0) return 0;
  if (round.world > 1) return 1;
  // The squared L2 norm of a chunk that is left out is at most its squared L1 norm; that is at most the squared L1 norm
  // of each chosen chunk; and that is at most the squared L2 norm of the chosen chunk times its length.
  const auto chosen = static_cast<double>(chosen_of(entries, round));
  const double left_out = static_cast<double>(chunks_of(entries)) - chosen;
  const auto length = static_cast<double>(std::min(entries, static_cast<std::uint64_t>(options_.chunk)));
  return left_out * length / (chosen + left_out * length);
}

std::size_t Chunk::chunks_of(std::uint64_t entries) const {
  const auto chunk = static_cast<std::uint64_t>(options_.chunk);
  return (entries + chunk - 1) / chunk;
}

std::size_t Chunk::chosen_of(std::uint64_t entries, const Round& round) const {
  return entries_kept(ratio(round), chunks_of(entries));
}

std::span<const float> Chunk::part(std::span<const float> values, std::size_t chunk) const {
  const auto length = static_cast<std::size_t>(options_.chunk);
  return values.subspan(chunk * length, std::min(length, values.size() - chunk * length));
}

std::optional<WireBits> Chunk::expected_bits(at::IntArrayRef shape, const Round& round) const {
  const std::uint64_t entries = entries_of(shape);
  if (entries == 0) return std::nullopt;
  const std::uint64_t sent = std::min(entries, chosen_of(entries, round) * static_cast<std::uint64_t>(options_.chunk));
  return WireBits{.summed = 32 * static_cast<double>(chunks_of(entries) + sent) / static_cast<double>(entries)};
}

Result<void> Chunk::do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) {
  return round.pass == 0 ? write_norms(gradient, round, out) : write_chosen(gradient, round, out);
}

Result<void> Chunk::write_norms(const at::Tensor& gradient, const Round& round, Bytes& out) {
  Choice& choice = choices_.of(round);
  std::vector<float>& norms = choice.norms;
  const std::uint64_t entries = entries_of(gradient.sizes());
  const auto length = static_cast<std::size_t>(options_.chunk);
  norms.resize(chunks_of(entries));
  if (gradient.is_cpu()) {
    const std::span<const float> values = flat(gradient);
    parallel_for_parts(norms.size(), length, [&](std::size_t i) { norms[i] = sum_of_magnitudes(part(values, i)); });
  } else if (auto summed = device::sum_magnitudes(gradient, length, norms); !summed) {
    return summed;
  }
  if (std::ranges::any_of(norms, [](float it) { return std::isinf(it); })) return non_finite(round, gradient);
  choice.entries = entries;
  choice.chunks.clear();
  append(out, std::as_bytes(std::span(norms)));
  return {};
}

Result<void> Chunk::absorb(std::span<const BytesView> results, const Round& round) {
  if (round.pass > 0) return {};
  Choice* known = choices_.find(round);
  if (known == nullptr) return Error(Errc::malformed, "norms came for a tensor that was not encoded");
  Choice& choice = *known;
  std::vector<float>& norms = choice.norms;
  norms.resize(chunks_of(choice.entries));
  if (results.size() != 1 || results[0].size() != norms.size() * sizeof(float)) {
    return Error(Errc::malformed, "a sum of the norms of " + std::to_string(norms.size()) + " chunks is due");
  }
  if (norms.empty()) return {};
  std::memcpy(norms.data(), results[0].data(), results[0].size());
  // Sums may overflow. Infinity is then the largest norm, as it should be.
  if (std::ranges::any_of(norms, [](float it) { return !(it >= 0); })) {
    return Error(Errc::malformed, "a norm is negative or not a number");
  }
  Cut cut = cut_at_rank(norms, chosen_of(choice.entries, round));
  choice.chunks.clear();
  for (std::size_t i = 0; i < norms.size(); ++i) {
    const std::uint32_t norm = magnitude(norms[i]);
    if (norm < cut.magnitude || (norm == cut.magnitude && cut.ties == 0)) continue;
    if (norm == cut.magnitude) --cut.ties;
    choice.chunks.push_back(static_cast<std::uint32_t>(i));
  }
  return {};
}

Result<void> Chunk::write_chosen(const at::Tensor& gradient, const Round& round, Bytes& out) {
  const Choice* known = choices_.find(round);
  const std::uint64_t entries = entries_of(gradient.sizes());
  if (known == nullptr || known->entries != entries || (known->chunks.empty() && entries > 0)) {
    return Error(Errc::invalid_argument, "chunk: the second pass of a tensor follows on its first");
  }
  const std::size_t before = out.size();
  if (!gradient.is_cpu()) {
    out.resize(before + entries_in(*known) * sizeof(float));
    const auto taken = device::take_chunks(gradient, static_cast<std::uint64_t>(options_.chunk), known->chunks,
                                           std::span(out).subspan(before));
    if (!taken) return taken.error();
    return *taken ? Result<void>() : non_finite(round, gradient);
  }
  const std::span<const float> values = flat(gradient);
  for (const std::uint32_t chunk : known->chunks) {
    const auto chosen = part(values, chunk);
    if (!all_finite(chosen)) {
      out.resize(before);
      return non_finite(round, values);
    }
    append(out, std::as_bytes(std::span(chosen)));
  }
  return {};
}

std::uint64_t Chunk::entries_in(const Choice& choice) const {
  const auto length = static_cast<std::uint64_t>(options_.chunk);
  const std::uint64_t chunks = chunks_of(choice.entries);
  const bool has_last = !choice.chunks.empty() && choice.chunks.back() + 1 == chunks;
  return length * choice.chunks.size() - (has_last ? length * chunks - choice.entries : 0);
}

Result<const Chunk::Choice*> Chunk::choice_for(BytesView payload, const Round& round, std::uint64_t entries) const {
  const Choice* known = choices_.find(round);
  if (known == nullptr || known->entries != entries) {
    return Error(Errc::malformed,
                 "chunks came for a tensor of " + std::to_string(entries) + " entries, of which no norms were summed");
  }
  const Choice& choice = *known;
  const std::uint64_t due = entries_in(choice);
  if (choice.chunks.empty() != (entries == 0) || payload.size() != due * sizeof(float)) {
    return Error(Errc::malformed, "chunks of " + std::to_string(payload.size()) + " bytes came where " +
                                      std::to_string(due * sizeof(float)) + " are due");
  }
  return &choice;
}

Result<void> Chunk::do_decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum) {
  const std::span<float> target = flat(sum);
  const auto choice = choice_for(payload, round, target.size());
  if (!choice) return choice.error();
  for (const std::uint32_t chunk : (*choice)->chunks) {
    const std::size_t size = part(target, chunk).size();
    read_.resize(size);
    std::memcpy(read_.data(), payload.data(), size * sizeof(float));
    if (!all_finite(read_)) return Error(Errc::malformed, "a payload holds a value that is not a number");
    const BytesView bytes = payload.first(size * sizeof(float));
    add_scaled(weight, bytes, target.subspan(chunk * static_cast<std::size_t>(options_.chunk), size));
    payload = payload.subspan(bytes.size());
  }
  return {};
}

Result<void> Chunk::read_entries(BytesView payload, const Round& round, std::uint64_t entries, Selection& out) const {
  const auto choice = choice_for(payload, round, entries);
  if (!choice) return choice.error();
  out.clear();
  const auto length = static_cast<std::uint64_t>(options_.chunk);
  for (const std::uint32_t chunk : (*choice)->chunks) {
    const std::uint64_t end = std::min(entries, (chunk + 1) * length);
    for (std::uint64_t at = chunk * length; at < end; ++at) out.positions.push_back(static_cast<std::uint32_t>(at));
  }
  out.values.resize(out.positions.size());
  fp32_codec.decode(payload, out.values);
  if (!all_finite(out.values)) return Error(Errc::malformed, "a payload holds a value that is not a number");
  return {};
}

}  // namespace weir::compressors
