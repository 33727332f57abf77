#include "compressors/catalog.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "compressors/kernels/random/random.hpp"
#include "compressors/memories/dgc_memory.hpp"
#include "compressors/memories/ef21_memory.hpp"
#include "compressors/memories/efsignsgd_memory.hpp"
#include "compressors/memories/misfit.hpp"
#include "compressors/memories/no_memory.hpp"
#include "compressors/memories/powersgd_memory.hpp"
#include "compressors/memories/residual_memory.hpp"
#include "compressors/quantizers/bf16.hpp"
#include "compressors/quantizers/efsignsgd.hpp"
#include "compressors/quantizers/fp16.hpp"
#include "compressors/quantizers/int8.hpp"
#include "compressors/quantizers/natural.hpp"
#include "compressors/quantizers/none.hpp"
#include "compressors/quantizers/onebit.hpp"
#include "compressors/quantizers/qsgd.hpp"
#include "compressors/quantizers/signsgd.hpp"
#include "compressors/quantizers/signum.hpp"
#include "compressors/quantizers/terngrad.hpp"
#include "compressors/quantizers/uint8.hpp"
#include "compressors/sketches/casq.hpp"
#include "compressors/sketches/sketchml.hpp"
#include "compressors/sparsifiers/blockk.hpp"
#include "compressors/sparsifiers/chunk.hpp"
#include "compressors/sparsifiers/cocktail.hpp"
#include "compressors/sparsifiers/dgc.hpp"
#include "compressors/sparsifiers/randomk.hpp"
#include "compressors/sparsifiers/sidco.hpp"
#include "compressors/sparsifiers/threshold.hpp"
#include "compressors/sparsifiers/topk.hpp"
#include "compressors/transforms/atomo.hpp"
#include "compressors/transforms/demo.hpp"
#include "compressors/transforms/powersgd.hpp"
#include "compressors/variants.hpp"
#include "protocol/schema.hpp"

namespace weir::compressors {

const CompressionCatalog& builtin() {
  static const CompressionCatalog catalog = CompressionCatalog()
                                                .add_compressor<None>()
                                                .add_compressor<Fp16>()
                                                .add_compressor<Bf16>()
                                                .add_compressor<Int8>()
                                                .add_compressor<Uint8>()
                                                .add_compressor<Natural>()
                                                .add_compressor<Qsgd>()
                                                .add_compressor<TernGrad>()
                                                .add_compressor<OneBit>()
                                                .add_compressor<SignSgd>()
                                                .add_compressor<Signum>()
                                                .add_compressor<EfSignSgd>()
                                                .add_compressor<TopK>()
                                                .add_compressor<RandomK>()
                                                .add_compressor<Threshold>()
                                                .add_compressor<Dgc>()
                                                .add_compressor<Sidco>()
                                                .add_compressor<Chunk>()
                                                .add_compressor<BlockK>()
                                                .add_compressor<Cocktail>()
                                                .add_compressor<Atomo>()
                                                .add_compressor<PowerSgd>()
                                                .add_compressor<Demo>()
                                                .add_compressor<SketchMl>()
                                                .add_compressor<Casq>()
                                                .add_memory<NoMemory>()
                                                .add_memory<ResidualMemory>()
                                                .add_memory<DgcMemory>()
                                                .add_memory<EfSignSgdMemory>()
                                                .add_memory<PowerSgdMemory>()
                                                .add_memory<Ef21Memory>();
  return catalog;
}

namespace {

/// Suggests the nearest name, or else lists all.
Error unknown(std::string_view kind, std::string_view name, const std::vector<std::string>& known) {
  std::string what = "no " + std::string(kind) + " is named '" + std::string(name) + "'";
  if (const std::string nearest = protocol::nearest_name(name, known); !nearest.empty()) {
    what += "; did you mean '" + nearest + "'?";
  } else {
    what += "; there are";
    for (const std::string& other : known) what += (&other == &known.front() ? " " : ", ") + other;
  }
  return Error(Errc::not_found, what);
}

/// Names every parameter that is wrong.
Error refused(std::string_view owner, const std::vector<protocol::Problem>& problems) {
  std::string what = "parameters of '" + std::string(owner) + "'";
  for (const auto& problem : problems) {
    what += (&problem == &problems.front() ? ": " : "; ") + (problem.pointer.empty() ? "" : problem.pointer + " ") +
            problem.message;
  }
  return Error(Errc::invalid_argument, what);
}

Error refused_by_compressor(std::string_view, std::string_view name, const std::vector<protocol::Problem>& problems) {
  return refused(name, problems);
}

/// Some memories have the name of a compressor.
Error refused_by_memory(std::string_view kind, std::string_view name, const std::vector<protocol::Problem>& problems) {
  return refused(std::string(kind) + " " + std::string(name), problems);
}

std::string_view name_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum: return "sum";
    case Reduction::sum_fp16: return "sum_fp16";
    case Reduction::sum_bf16: return "sum_bf16";
    case Reduction::max: return "max";
    case Reduction::gather: return "gather";
  }
  return "";
}

/// Bits per entry that one rank sends of a matrix of 2^16 entries after the warm-up, in summed and in gathered passes.
nlohmann::json wire_bits(Compressor& compressor) {
  constexpr std::int64_t side = 256;
  constexpr RandomKey key{.seed = 1};
  at::Tensor gradient = at::empty({side, side}, at::kFloat);
  for (std::int64_t i = 0; i < gradient.numel(); ++i) {
    const float x = unit_float(random_word(key, static_cast<std::uint64_t>(i))) - 0.5F;
    gradient.data_ptr<float>()[i] = x * x * x;
  }
  Round round{.epoch = 1e9};
  double summed = 0;
  double gathered = 0;
  const auto passes = compressor.traits().passes;
  for (round.pass = 0; round.pass < passes.size(); ++round.pass) {
    Bytes payload;
    compressor.encode(gradient, round, payload).value();
    const BytesView result = payload;
    compressor.absorb(std::span(&result, 1), round).value();
    (passes[round.pass] == Reduction::gather ? gathered : summed) += 8.0 * static_cast<double>(payload.size());
  }
  const auto entries = static_cast<double>(gradient.numel());
  return {{"summed", summed / entries}, {"gathered", gathered / entries}};
}

/// Whether a matrix is sent dense in rounds in which its payloads would be larger.
bool can_go_dense(const Compressor& compressor) {
  return !compressor.traits().votes && compressor.expected_bits({256, 256}, {.epoch = 1e9}).has_value();
}

/// How long a vector must be to be compressed; null if none is.
nlohmann::json vector_entries_min(const Compressor& compressor) {
  const std::uint64_t least = compressor.vector_entries_min();
  return least == Compressor::never_vectors ? nlohmann::json(nullptr) : nlohmann::json(least);
}

/// The traits of a compressor as JSON. The error bound is for a tensor of a million entries, null if there is none.
nlohmann::json describe_traits(Compressor& compressor) {
  const Traits traits = compressor.traits();
  nlohmann::json passes = nlohmann::json::array();
  for (const Reduction pass : traits.passes) passes.push_back(name_of(pass));
  const double bound = compressor.error_bound(1'000'000, {.epoch = 1e9});
  const auto usual = [&](double epochs, bool rate_falls) { return compressor.warmup_length({epochs, rate_falls}); };
  return {
      {"passes", passes},
      {"linear", std::ranges::find(traits.passes, Reduction::gather) == traits.passes.end()},
      {"lossless", traits.lossless},
      {"biased", traits.biased},
      {"sparse", traits.sparse},
      {"stateful", traits.stateful},
      {"thins", traits.thins},
      {"votes", traits.votes},
      {"owns_momentum", traits.owns_momentum},
      {"owners_keep_residual", owners_keep_residual(compressor)},
      {"exact_on_devices", traits.exact_on_devices},
      {"device_misfit", traits.device_misfit.empty() ? nlohmann::json(nullptr) : nlohmann::json(traits.device_misfit)},
      {"vector_entries_min", vector_entries_min(compressor)},
      {"warmup", usual(1, true).epochs > 0 || usual(1, true).rounds > 0},
      {"usual_warmup",
       {{"share", usual(1, false).epochs},
        {"share_where_rate_falls", usual(1, true).epochs},
        {"epochs_max", usual(1e9, true).epochs}}},
      {"goes_dense", can_go_dense(compressor)},
      {"error_bound", std::isfinite(bound) ? nlohmann::json(bound) : nlohmann::json(nullptr)},
      {"wire_bits", wire_bits(compressor)}};
}

std::unique_ptr<Compressor> with_defaults(const CompressorEntry& entry) {
  auto made = entry.make(nullptr);
  ensure(made.has_value(), "a compressor refuses its own defaults");
  return std::move(*made);
}

/// Which numbers give a memory a momentum of its own when they are not the default.
nlohmann::json params_of_momentum(const MemoryEntry& entry, const nlohmann::json& schema) {
  auto found = nlohmann::json::array();
  for (const auto& [name, property] : schema.at("properties").items()) {
    if (!property.contains("maximum")) continue;
    const auto made = entry.make({{name, property.at("maximum")}}, {});
    if (made && (*made)->traits().replaces_momentum) found.push_back(name);
  }
  return found;
}

/// The memory for differences between models, unless the job names one: the default if it fits, or else error feedback
/// if that fits.
std::string memory_for_differences(const CompressorEntry& entry, const std::vector<MemoryEntry>& memories,
                                   const Compressor& compressor) {
  for (const std::string_view name : {std::string_view(entry.default_memory), ResidualMemory::type_name}) {
    const auto memory = std::ranges::find(memories, name, &MemoryEntry::name);
    if (memory == memories.end() || no_differences(memory->traits) || memory->misfit(compressor)) continue;
    return memory->name;
  }
  return std::string(NoMemory::type_name);
}

}  // namespace

nlohmann::json MemoryEntry::describe() const {
  nlohmann::json it = CatalogEntry::describe();
  it["owns_momentum"] = traits.owns_momentum;
  it["momentum_params"] = params_of_momentum(*this, it.at("params"));
  if (const auto reason = no_differences(traits)) it["differences_misfit"] = *reason;
  if (const auto reason = no_pushes(traits)) it["pushes_misfit"] = *reason;
  return it;
}

CompressionCatalog::CompressionCatalog()
    : compressors_({.kind = "compressor", .unknown = unknown, .refused = refused_by_compressor}),
      memories_({.kind = "memory", .unknown = unknown, .refused = refused_by_memory}) {}

CompressionCatalog& CompressionCatalog::add(CompressorEntry entry) {
  compressors_.add(std::move(entry));
  return *this;
}

Result<std::unique_ptr<Compressor>> CompressionCatalog::make_compressor(std::string_view name,
                                                                        const nlohmann::json& params) const {
  return compressors_.make(name, params);
}

Result<Compression> CompressionCatalog::make(const CompressionRequest& request) const {
  auto compressor = make_compressor(request.compressor, request.params);
  if (!compressor) return compressor.error();
  const CompressorEntry& chosen = *compressors_.find(request.compressor);
  const std::string& wanted = request.memory.empty() ? chosen.default_memory : request.memory;
  const MemoryEntry* entry = memories_.find(wanted);
  if (entry == nullptr) return memories_.unknown(wanted);
  if (const auto reason = entry->misfit(**compressor)) {
    return Error(Errc::invalid_argument,
                 "memory '" + wanted + "' does not fit compressor '" + request.compressor + "': " + *reason);
  }
  nlohmann::json params = wanted == chosen.default_memory ? chosen.default_memory_params() : nlohmann::json::object();
  if (request.memory_params.get().is_object()) {
    params.update(request.memory_params);
  } else if (!request.memory_params.get().is_null()) {
    params = request.memory_params;
  }
  auto memory = entry->make(params, request.setting);
  if (!memory) return memory.error();
  return Compression{std::move(*compressor), std::move(*memory)};
}

nlohmann::json CompressionCatalog::describe() const {
  nlohmann::json compressors = nlohmann::json::array();
  for (const CompressorEntry& entry : compressors_.entries()) {
    const std::unique_ptr<Compressor> compressor = with_defaults(entry);
    const nlohmann::json fits = fits_of(*compressor, memories_.entries());
    const nlohmann::json& misfits = fits.at("memory_misfits");
    nlohmann::json fitting = nlohmann::json::array();
    for (const MemoryEntry& memory : memories_.entries()) {
      if (!misfits.contains(memory.name)) fitting.push_back(memory.name);
    }
    nlohmann::json it = entry.describe();
    for (const auto& [what, reason] : fits.items()) {
      if (what.ends_with("_misfit")) it[what] = reason;
    }
    it.update({{"default_memory", entry.default_memory},
               {"default_memory_params", entry.default_memory_params()},
               {"memory_for_differences", memory_for_differences(entry, memories_.entries(), *compressor)},
               {"memories", fitting},
               {"memory_misfits", misfits},
               {"variants", variants_of(entry, memories_.entries())},
               {"traits", describe_traits(*compressor)}});
    compressors.push_back(std::move(it));
  }
  return {{"compressors", compressors}, {"memories", memories_.describe()}};
}

}  // namespace weir::compressors
