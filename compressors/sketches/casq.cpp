#include "compressors/sketches/casq.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/errc.hpp"
#include "compressors/codecs/payload.hpp"
#include "compressors/codecs/varint.hpp"
#include "compressors/device/codes.hpp"
#include "compressors/device/memory_steps.hpp"
#include "compressors/flat.hpp"
#include "compressors/kernels/arithmetic.hpp"
#include "compressors/kernels/pack.hpp"
#include "compressors/kernels/prefetch.hpp"
#include "compressors/kernels/random/random.hpp"
#include "compressors/kernels/selection/selection.hpp"
#include "compressors/non_finite.hpp"
#include "compressors/parallel_loops.hpp"
#include "compressors/round_key.hpp"

namespace weir::compressors {
namespace {

enum class Kind : std::uint8_t { raw = 0, tables = 1, clusters = 2 };

/// The name of a saved tensor is this prefix and the position of the tensor.
constexpr std::string_view state_prefix = "clusters.";

std::optional<std::uint32_t> tensor_in(std::string_view name) {
  if (!name.starts_with(state_prefix)) return std::nullopt;
  name.remove_prefix(state_prefix.size());
  std::uint32_t tensor = 0;
  const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), tensor);
  if (failure != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return tensor;
}

Error malformed_casq(const std::string& what) { return Error(Errc::malformed, "casq: " + what); }

void seal(BytesView body, Bytes& out) {
  PayloadWriter payload(out, Format::clusters, body.size());
  std::ranges::copy(body, payload.body().begin());
  payload.seal();
}

void write_head(Kind kind, std::uint64_t entries, Bytes& body) {
  body.clear();
  body.push_back(static_cast<std::byte>(kind));
  append_varint(body, entries);
}

void append_sizes(Bytes& body, const Clusters& clusters) {
  for (std::size_t c = 0; c < clusters.count(); ++c) append_varint(body, clusters.sizes[c]);
}

/// Copies entries as they are. Returns whether all are finite.
bool copy_entries(std::span<const float> values, std::span<std::byte> to) {
  std::ranges::copy(std::as_bytes(values), to.begin());
  return all_finite(values);
}

/// Writes a proposal; an empty one if there are no clusters. `body` is working memory.
void write_proposal(std::uint64_t entries, const std::optional<Clusters>& clusters, Bytes& body, Bytes& out) {
  write_head(Kind::clusters, entries, body);
  body.push_back(static_cast<std::byte>(clusters ? clusters->bits : 0));
  if (clusters) {
    append_sizes(body, *clusters);
    append(body, std::as_bytes(std::span(clusters->thresholds).first(2 * clusters->thresholds_per_sign())));
  }
  seal(body, out);
}

/// Reads the sizes of 2^bits tables and removes them from the front of `in`. Returns nothing if a table has fewer
/// buckets than there are segments, or all tables together have more than `buckets_max`.
std::optional<Clusters> read_sizes(BytesView& in, unsigned bits, const Segments& segments, std::uint64_t buckets_max) {
  if (bits < 1 || bits > cluster_bits_max) return std::nullopt;
  Clusters clusters;
  clusters.bits = bits;
  std::uint64_t all = 0;
  for (std::size_t c = 0; c < clusters.count(); ++c) {
    const auto size = read_varint(in);
    if (!size || *size < segments.count()) return std::nullopt;
    all += *size;
    if (all > buckets_max) return std::nullopt;
    clusters.sizes[c] = static_cast<std::uint32_t>(*size);
  }
  return clusters;
}

/// The position of a bucket in the tables has 31 bits.
constexpr std::uint64_t tables_max = 0x7FFFFFFF;

/// How many buckets the tables of all clusters are to have together.
double buckets_for(double budget, std::uint64_t entries) {
  return std::min(budget * static_cast<double>(entries), 0x1p30);
}

std::uint64_t most_buckets(std::uint64_t entries) {
  return std::min(entries + cluster_buckets_min * clusters_max * Segments(entries).count(), tables_max);
}

/// The body of one payload: its head, decoded, and the rest.
struct Opened {
  Kind kind = Kind::raw;
  std::uint64_t entries = 0;
  BytesView rest;
};

Result<Opened> open(BytesView payload) {
  const auto body = open_payload(payload, Format::clusters, parallel_for_pieces);
  if (!body) return body.error();
  if (body->empty() || std::to_integer<std::uint8_t>((*body)[0]) > 2)
    return malformed_casq("a payload of no known kind");
  Opened opened{static_cast<Kind>((*body)[0]), 0, body->subspan(1)};
  const auto entries = read_varint(opened.rest);
  if (!entries || *entries > 0xFFFFFFFF) return malformed_casq("the head is cut off");
  opened.entries = *entries;
  return opened;
}

/// Reads the clusters that a rank proposes; none if the proposal is empty. Fails with: malformed.
Result<std::optional<Clusters>> read_proposal(const Opened& opened) {
  BytesView in = opened.rest;
  if (opened.kind != Kind::clusters || in.empty()) return malformed_casq("no clusters came in the first pass");
  const auto bits = std::to_integer<std::uint8_t>(in[0]);
  in = in.subspan(1);
  if (bits == 0 && in.empty()) return std::optional<Clusters>();
  auto clusters = read_sizes(in, bits, Segments(opened.entries), most_buckets(opened.entries));
  if (!clusters) return malformed_casq("clusters without tables, or with too large ones");
  const std::size_t each = clusters->thresholds_per_sign();
  if (in.size() != 2 * each * sizeof(float)) return malformed_casq("clusters with too many or too few thresholds");
  std::ranges::copy(in, std::as_writable_bytes(std::span(clusters->thresholds)).begin());
  for (std::size_t i = 0; i < 2 * each; ++i) {
    const auto bits_of = std::bit_cast<std::uint32_t>(clusters->thresholds[i]);
    const bool ascends = i % each == 0 || clusters->thresholds[i - 1] <= clusters->thresholds[i];
    if (bits_of >= magnitude_infinite || !ascends) return malformed_casq("thresholds that do not ascend");
  }
  return clusters;
}

/// The decoded tables of a payload; the means have been validated.
struct Tables {
  Clusters clusters;
  std::uint32_t salt = 0;
  std::span<const float> means;
  BytesView ids;
};

/// Reads tables, with the means into `kept`.
Result<Tables> read_tables(const Opened& opened, std::vector<float>& kept) {
  BytesView in = opened.rest;
  Tables tables;
  if (in.size() < 5) return malformed_casq("tables are cut off");
  const auto bits = std::to_integer<std::uint8_t>(in[0]);
  tables.salt = load_u32(in.data() + 1);
  in = in.subspan(5);
  const auto clusters = read_sizes(in, bits, Segments(opened.entries), std::min(in.size() / sizeof(float), tables_max));
  if (!clusters) return malformed_casq("tables are cut off");
  tables.clusters = *clusters;
  const std::size_t buckets = clusters->buckets();
  if (in.size() != buckets * sizeof(float) + packed_bytes(opened.entries, bits)) {
    return malformed_casq("tables and ids of the wrong length");
  }
  kept.resize(buckets);
  std::ranges::copy(in.first(buckets * sizeof(float)), std::as_writable_bytes(std::span(kept)).begin());
  tables.means = kept;
  std::size_t positives = 0;
  for (std::size_t c = 0; c < clusters->count() / 2; ++c) positives += clusters->sizes[c];
  const std::span means = tables.means;
  if (!all_finite(means) || std::ranges::any_of(means.first(positives), [](float mean) { return mean < 0; }) ||
      std::ranges::any_of(means.subspan(positives), [](float mean) { return mean > 0; })) {
    return malformed_casq("means that no entries have");
  }
  tables.ids = in.subspan(buckets * sizeof(float));
  if (!padding_is_zero(tables.ids, opened.entries, bits)) return malformed_casq("bits behind the last id");
  return tables;
}

/// Calls body(placing, first, size) for each block of a tensor: in order within a segment, with the segments on several
/// threads.
template <class Body>
void for_blocks(const Clusters& clusters, std::uint32_t salt, std::uint64_t entries, const Body& body) {
  const Segments segments(entries);
  parallel_for_parts(segments.count(), entries / segments.count(), [&](std::size_t segment) {
    const Placing placing(clusters, salt, segments, segment);
    const std::size_t end = segments.begin(segment + 1);
    for (std::size_t first = segments.begin(segment); first < end; first += cluster_block) {
      body(placing, first, std::min(cluster_block, end - first));
    }
  });
}

}  // namespace

protocol::Params<Casq::Options> Casq::params() {
  return protocol::Params<Options>()
      .integer("bits", &Options::bits, {.minimum = 1.0, .maximum = double{cluster_bits_max}},
               "Bits of an entry's cluster: there are 2^bits, half of them for each sign.")
      .number("budget", &Options::budget, {.exclusive_minimum = 0.0, .maximum = 1.0},
              "Floats in the tables of all clusters, as a share of the entries.")
      .integer("train_every", &Options::train_every, {.minimum = 1.0},
               "Steps from one training of the clusters, by one of the ranks, to the next.");
}

std::optional<WireBits> Casq::expected_bits(at::IntArrayRef shape, const Round&) const {
  const std::uint64_t entries = entries_of(shape);
  if (entries == 0) return std::nullopt;
  if (entries <= raw_entries_max) return WireBits{.gathered = 32};
  const auto least = static_cast<double>((cluster_buckets_min << options_.bits) * Segments(entries).count());
  const double tables = buckets_for(options_.budget, entries) + least;
  return WireBits{.gathered = static_cast<double>(options_.bits) + 32 * tables / static_cast<double>(entries)};
}

double Casq::error_bound(std::uint64_t entries, const Round&) const {
  return entries <= raw_entries_max ? 0 : 1 - (1 - 0x1p-48) / static_cast<double>(entries);
}

std::uint32_t Casq::trainer(const Round& round) const {
  const auto every = static_cast<std::uint64_t>(options_.train_every);
  return static_cast<std::uint32_t>((round.tensor + round.step / every + round.step % every) % round.world);
}

bool Casq::is_to_train(std::uint64_t entries, const Round& round) const {
  if (entries <= raw_entries_max) return false;
  const Agreed* known = agreed_.find(round);
  const bool has_clusters = known != nullptr && known->entries == entries && known->clusters;
  return !has_clusters || round.step % static_cast<std::uint64_t>(options_.train_every) == 0;
}

Result<void> Casq::propose(const at::Tensor& gradient, const Round& round, Bytes& out) {
  const auto entries = static_cast<std::uint64_t>(gradient.numel());
  std::optional<Clusters> proposal;
  if (round.rank == trainer(round) && is_to_train(entries, round)) {
    Clusters clusters;
    const auto buckets = static_cast<std::size_t>(buckets_for(options_.budget, entries));
    const std::size_t stride = cluster_sample_stride(entries);
    if (!gradient.is_cpu()) {
      if (auto sampled = device::sample(gradient, stride, sample_); !sampled) return sampled;
    }
    const auto bits = static_cast<unsigned>(options_.bits);
    if (gradient.is_cpu() ? train_clusters(flat(gradient), stride, bits, buckets, clusters)
                          : train_clusters(sample_, 1, bits, buckets, clusters)) {
      clusters.cover(Segments(entries));
      proposal = clusters;
    }
  }
  write_proposal(entries, proposal, body_, out);
  return {};
}

Result<void> Casq::absorb(std::span<const BytesView> results, const Round& round) {
  if (round.pass > 0) return {};
  const std::uint32_t from = trainer(round);
  if (results.size() != round.world) return malformed_casq("as many proposals are due as there are ranks");
  Agreed agreed;
  for (std::uint32_t rank = 0; rank < results.size(); ++rank) {
    const auto opened = open(results[rank]);
    if (!opened) return opened.error();
    auto proposal = read_proposal(*opened);
    if (!proposal) return proposal.error();
    if (rank > 0 && opened->entries != agreed.entries)
      return malformed_casq("proposals for tensors of different sizes");
    agreed.entries = opened->entries;
    if (!*proposal) continue;
    if (rank != from) return malformed_casq("clusters came from a rank whose turn it is not");
    agreed.clusters = **proposal;
  }
  Agreed& known = agreed_.of(round);
  if (agreed.clusters || known.entries != agreed.entries) known = agreed;
  return {};
}

Clusters Casq::clusters_of(const Agreed& agreed) const {
  if (agreed.clusters) return *agreed.clusters;
  Clusters lowest;
  train_clusters({}, 1, static_cast<unsigned>(options_.bits), 0, lowest);
  lowest.cover(Segments(agreed.entries));
  return lowest;
}

std::vector<NamedTensor> Casq::save() const {
  std::vector<NamedTensor> state;
  Bytes body;
  for (const auto& [tensor, agreed] : agreed_.all()) {
    if (!agreed.clusters) continue;
    Bytes proposal;
    write_proposal(agreed.entries, agreed.clusters, body, proposal);
    at::Tensor saved = at::empty({static_cast<std::int64_t>(proposal.size())}, at::kByte);
    std::memcpy(saved.data_ptr(), proposal.data(), proposal.size());
    state.push_back({std::string(state_prefix) + std::to_string(tensor), std::move(saved)});
  }
  return state;
}

Result<void> Casq::restore(std::span<const NamedTensor> state) {
  agreed_.clear();
  std::map<std::uint32_t, Agreed> restored;
  for (const NamedTensor& saved : state) {
    const auto tensor = tensor_in(saved.name);
    if (!tensor || !saved.tensor.defined() || saved.tensor.scalar_type() != at::kByte) {
      return malformed_casq("saved state '" + saved.name + "' is not clusters");
    }
    const at::Tensor bytes = saved.tensor.contiguous();
    const auto opened = open({static_cast<const std::byte*>(bytes.data_ptr()), bytes.nbytes()});
    if (!opened) return opened.error().within("saved state '" + saved.name + "'");
    const auto proposal = read_proposal(*opened);
    if (!proposal) return proposal.error().within("saved state '" + saved.name + "'");
    if (*proposal) restored[*tensor] = {opened->entries, **proposal};
  }
  agreed_.replace(std::move(restored));
  return {};
}

Result<void> Casq::do_encode(const at::Tensor& gradient, const Round& round, Bytes& out) {
  if (round.pass == 0) return propose(gradient, round, out);
  if (gradient.numel() > static_cast<std::int64_t>(raw_entries_max)) return write_tables(gradient, round, out);
  return write_raw(gradient, round, out);
}

Result<void> Casq::write_raw(const at::Tensor& gradient, const Round& round, Bytes& out) {
  write_head(Kind::raw, static_cast<std::uint64_t>(gradient.numel()), body_);
  const std::size_t head = body_.size();
  body_.resize(head + gradient.nbytes());
  const auto code = std::span(body_).subspan(head);
  const auto finite =
      gradient.is_cpu() ? Result<bool>(copy_entries(flat(gradient), code)) : device::write_entries(gradient, code);
  if (!finite) return finite.error();
  if (!*finite) return non_finite(round, gradient);
  seal(body_, out);
  return {};
}

Result<void> Casq::write_tables(const at::Tensor& gradient, const Round& round, Bytes& out) {
  const auto entries = static_cast<std::uint64_t>(gradient.numel());
  const Agreed* agreed = agreed_.find(round);
  if (agreed == nullptr || agreed->entries != entries) {
    return malformed_casq("no clusters came for a tensor of " + std::to_string(entries) + " entries");
  }
  const Clusters clusters = clusters_of(*agreed);
  const std::uint32_t salt = random_word(key_of_all(round), 0);
  write_head(Kind::tables, entries, body_);
  body_.push_back(static_cast<std::byte>(clusters.bits));
  body_.resize(body_.size() + sizeof salt);
  store_u32(body_.data() + body_.size() - sizeof salt, salt);
  append_sizes(body_, clusters);

  const std::size_t code_bytes = clusters.buckets() * sizeof(float) + packed_bytes(entries, clusters.bits);
  PayloadWriter payload(out, Format::clusters, body_.size() + code_bytes);
  std::ranges::copy(body_, payload.body().begin());
  const auto code = payload.body().last(code_bytes);
  const auto finite = gradient.is_cpu() ? Result<bool>(write_code(flat(gradient), clusters, salt, code))
                                        : device::write_clusters(gradient, clusters, salt, code);
  if (!finite) return finite.error();
  if (!*finite) return non_finite(round, gradient);
  payload.seal(parallel_for_pieces);
  return {};
}

bool Casq::write_code(std::span<const float> values, const Clusters& clusters, std::uint32_t salt,
                      std::span<std::byte> code) {
  table_.reset(clusters.buckets());
  const unsigned bits = clusters.bits;
  const auto ids_out = code.subspan(table_.size() * sizeof(float));
  std::atomic<bool> finite = true;
  for_blocks(clusters, salt, values.size(), [&](const Placing& placing, std::size_t first, std::size_t size) {
    std::uint8_t ids[cluster_block];
    prefetch_next(values, first, size);
    const auto block_ids = std::span(ids).first(size);
    const std::uint32_t largest =
        place_block(values.subspan(first, size), static_cast<std::uint32_t>(first), placing, table_, block_ids);
    if (largest >= magnitude_infinite) finite = false;
    pack(block_ids, bits, ids_out.subspan(packed_bytes(first, bits), packed_bytes(size, bits)));
  });
  if (!finite) return false;
  parallel_for_ranges(table_.size(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) store_f32(code.data() + i * sizeof(float), table_.mean(i));
  });
  return true;
}

Result<void> Casq::do_decode_add(BytesView payload, const Round&, float weight, at::Tensor& sum) {
  const auto entries = static_cast<std::size_t>(sum.numel());
  const auto opened = open(payload);
  if (!opened) return opened.error();
  if (opened->entries != entries) {
    return malformed_casq("a payload for " + std::to_string(opened->entries) + " entries came for a tensor of " +
                          std::to_string(entries));
  }
  if (opened->kind == Kind::raw) {
    if (opened->rest.size() != entries * sizeof(float)) return malformed_casq("entries are cut off");
    read_.resize(entries);
    std::ranges::copy(opened->rest, std::as_writable_bytes(std::span(read_)).begin());
    if (!all_finite(read_)) return malformed_casq("an entry that is not a number");
    if (!sum.is_cpu()) return device::add_scaled(weight, opened->rest, sum);
    add_scaled(weight, opened->rest, flat(sum));
    return {};
  }
  if (opened->kind != Kind::tables) return malformed_casq("clusters came where tables are due");
  const auto tables = read_tables(*opened, read_);
  if (!tables) return tables.error();
  if (!sum.is_cpu()) {
    return device::add_clusters(tables->ids, tables->means, tables->clusters, tables->salt, weight, sum);
  }
  const std::span<float> target = flat(sum);
  const unsigned bits = tables->clusters.bits;
  for_blocks(tables->clusters, tables->salt, target.size(),
             [&](const Placing& placing, std::size_t first, std::size_t size) {
               std::uint8_t ids[cluster_block];
               prefetch_next(target, first, size);
               const auto block_ids = std::span(ids).first(size);
               unpack(tables->ids.subspan(packed_bytes(first, bits), packed_bytes(size, bits)), bits, block_ids);
               expand_block(block_ids, static_cast<std::uint32_t>(first), placing, tables->means, weight,
                            target.subspan(first, size));
             });
  return {};
}

}  // namespace weir::compressors
