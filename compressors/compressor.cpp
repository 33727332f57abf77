#include "compressors/compressor.hpp"

#include <ATen/ATen.h>

#include <limits>
#include <utility>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "base/function_ref.hpp"
#include "compressors/device/codes.hpp"
#include "compressors/device/memory_steps.hpp"
#include "compressors/flat.hpp"

namespace weir::compressors {
namespace {

bool is_sum(const at::Tensor& sum) { return sum.defined() && sum.scalar_type() == at::kFloat && sum.is_contiguous(); }

/// Calls add(payload, round of its rank) for one rank after the other.
Result<void> add_in_turn(std::span<const BytesView> payloads, Round round,
                         FunctionRef<Result<void>(BytesView, const Round&)> add) {
  for (round.rank = 0; round.rank < payloads.size(); ++round.rank) {
    if (auto added = add(payloads[round.rank], round); !added) {
      return added.error().within("rank " + std::to_string(round.rank));
    }
  }
  return {};
}

Error no_sum(std::string_view name) {
  return Error(Errc::invalid_argument, std::string(name) + " decodes into contiguous float32 where it decodes at all");
}

}  // namespace

bool Compressor::takes(at::IntArrayRef shape) const {
  return shape.size() > 1 || entries_of(shape) >= vector_entries_min();
}

std::optional<WireBits> Compressor::expected_bits(at::IntArrayRef, const Round&) const { return std::nullopt; }

bool Compressor::decodes_on(at::Device device) const {
  return device.is_cpu() || (traits().sparse && codes_on(device));
}

bool Compressor::wants_dense(const Round&) const { return false; }

WarmupLength Compressor::warmup_length(const TrainingCourse&) const { return {}; }

bool Compressor::goes_dense(at::IntArrayRef shape, const Round& round) const {
  if (wants_dense(round)) return true;
  if (traits().votes) return false;
  const auto bits = expected_bits(shape, round);
  return bits && bits->more_than_dense(round.world, round.by_owners);
}

Result<at::Tensor> Compressor::prepared(const at::Tensor& gradient, const Round& round) const {
  if (!gradient.defined() || !gradient.is_floating_point() || !codes_on(gradient.device())) {
    return Error(Errc::invalid_argument, std::string(name()) + " encodes floating-point tensors on the processor");
  }
  if (static_cast<std::uint64_t>(gradient.numel()) > std::numeric_limits<std::uint32_t>::max()) {
    return Error(Errc::unsupported, "it has 2^32 entries or more");
  }
  const bool ready = gradient.scalar_type() == at::kFloat && gradient.is_contiguous() && !gradient.requires_grad();
  return ready ? gradient : gradient.detach().to(at::kFloat).contiguous();
}

Result<void> Compressor::begin(std::span<const at::Tensor> gradients, std::span<const Round> rounds) {
  std::vector<at::Tensor> there;
  std::vector<Round> of_there;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const auto ready = prepared(gradients[i], rounds[i]);
    if (!ready) return ready.error();
    // What is not ready is converted for encode() again.
    if (!ready->is_same(gradients[i]) || ready->is_cpu() || ready->numel() == 0) continue;
    there.push_back(*ready);
    of_there.push_back(rounds[i]);
  }
  return there.empty() ? Result<void>() : do_begin(there, of_there);
}

Result<void> Compressor::do_begin(std::span<const at::Tensor>, std::span<const Round>) { return {}; }

Result<void> Compressor::encode(const at::Tensor& gradient, const Round& round, Bytes& out, Selection* own) {
  const auto ready = prepared(gradient, round);
  if (!ready) return ready.error();
  const std::size_t before = out.size();
  auto encoded = do_encode(*ready, round, out);
  if (encoded && own != nullptr) {
    const BytesView payload = BytesView(out).subspan(before);
    encoded = own_entries(payload, round, static_cast<std::uint64_t>(gradient.numel()), *own);
  }
  if (!encoded) out.resize(before);
  return encoded;
}

Result<void> Compressor::select_entries(const at::Tensor& gradient, const Round& round, Selection& chosen) {
  if (!traits().selects) return Error(Errc::unsupported, std::string(name()) + " chooses no entries");
  const auto ready = prepared(gradient, round);
  if (!ready) return ready.error();
  return do_select(*ready, round, chosen);
}

Result<void> Compressor::decode_add(BytesView payload, const Round& round, float weight, at::Tensor& sum) {
  if (!is_sum(sum) || !codes_on(sum.device())) return no_sum(name());
  return sum.is_cpu() ? do_decode_add(payload, round, weight, sum)
                      : do_decode_add_on_device(payload, round, weight, sum);
}

Result<void> Compressor::decode_add_ranks(std::span<const BytesView> payloads, const Round& round, float weight,
                                          at::Tensor& sum) {
  if (!is_sum(sum) || !decodes_on(sum.device())) return no_sum(name());
  if (sum.is_cpu()) return do_decode_add_ranks(payloads, round, weight, sum);
  std::vector<device::ToAdd> waiting;
  auto read = add_in_turn(payloads, round, [&](BytesView payload, const Round& of) {
    return do_decode_add_later(payload, of, weight, sum, waiting);
  });
  return read ? decode_add_all(std::move(waiting)) : read;
}

Result<void> Compressor::decode_add_later(BytesView payload, const Round& round, float weight, at::Tensor& sum,
                                          std::vector<device::ToAdd>& waiting) {
  if (!is_sum(sum) || !codes_on(sum.device())) return no_sum(name());
  return sum.is_cpu() ? do_decode_add(payload, round, weight, sum)
                      : do_decode_add_later(payload, round, weight, sum, waiting);
}

Result<void> Compressor::do_decode_add_later(BytesView payload, const Round& round, float weight, at::Tensor& sum,
                                             std::vector<device::ToAdd>&) {
  return do_decode_add_on_device(payload, round, weight, sum);
}

Result<void> Compressor::decode_add_all(std::vector<device::ToAdd> waiting) {
  ensure(waiting.empty(), "only who has left something to add is asked to");
  return {};
}

Result<void> Compressor::do_decode_add_on_device(BytesView payload, const Round& round, float weight, at::Tensor& sum) {
  if (traits().sparse) {
    Selection entries;
    auto read = read_entries(payload, round, entries_of(sum.sizes()), entries);
    return read ? device::add_selection(weight, entries, sum) : read;
  }
  if (decodes_on(sum.device())) return do_decode_add(payload, round, weight, sum);
  // Added to minus zero, a value keeps its bits: those of a minus zero, too.
  at::Tensor decoded = at::full(sum.sizes(), -0.0F, at::kFloat);
  if (auto done = do_decode_add(payload, round, 1, decoded); !done) return done;
  return device::add_scaled(weight, std::as_bytes(flat(decoded)), sum);
}

Result<void> Compressor::do_decode_add_ranks(std::span<const BytesView> payloads, const Round& round, float weight,
                                             at::Tensor& sum) {
  return add_in_turn(payloads, round,
                     [&](BytesView payload, const Round& of) { return do_decode_add(payload, of, weight, sum); });
}

Result<void> Compressor::absorb(std::span<const BytesView>, const Round&) { return {}; }

Result<void> Compressor::conclude(at::Tensor&, const Round&) { return {}; }

Result<void> Compressor::conclude_all(std::span<at::Tensor> means, std::span<const Round> rounds) {
  for (std::size_t i = 0; i < means.size(); ++i) {
    if (auto concluded = conclude(means[i], rounds[i]); !concluded) return concluded;
  }
  return {};
}

Result<void> Compressor::read_entries(BytesView, const Round&, std::uint64_t, Selection&) const {
  return Error(Errc::unsupported, std::string(name()) + " sends every entry");
}

Result<void> Compressor::do_select(const at::Tensor&, const Round&, Selection&) {
  ensure(false, "only compressors that choose entries are asked for them");
  return {};
}

void Compressor::write_part(Selection&, std::uint32_t, Bytes&) {
  ensure(false, "only what a compressor has chosen goes in parts");
}

Result<void> Compressor::read_part(BytesView, std::uint32_t, Selection&) {
  return Error(Errc::unsupported, std::string(name()) + " chooses no entries");
}

Result<void> Compressor::own_entries(BytesView payload, const Round& round, std::uint64_t entries, Selection& own) {
  return read_entries(payload, round, entries, own);
}

Result<void> Compressor::restore(std::span<const NamedTensor> state) {
  if (state.empty()) return {};
  return Error(Errc::malformed, std::string(name()) + " keeps no state, but the checkpoint has some for it");
}

}  // namespace weir::compressors
