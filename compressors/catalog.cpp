#include "compressors/catalog.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/ensure.hpp"
#include "base/errc.hpp"
#include "compressors/dgc.hpp"
#include "compressors/dgc_memory.hpp"
#include "compressors/no_memory.hpp"
#include "compressors/none.hpp"
#include "compressors/residual_memory.hpp"
#include "compressors/topk.hpp"
#include "protocol/schema.hpp"

namespace weir::compressors {

const Catalog& builtin() {
  static const Catalog catalog = Catalog()
                                     .add_compressor<None>()
                                     .add_compressor<TopK>()
                                     .add_compressor<Dgc>()
                                     .add_memory<NoMemory>()
                                     .add_memory<ResidualMemory>()
                                     .add_memory<DgcMemory>();
  return catalog;
}

namespace {

template <class Entry>
const Entry* find(const std::vector<Entry>& entries, std::string_view name) {
  const auto at = std::ranges::find(entries, name, &Entry::name);
  return at == entries.end() ? nullptr : &*at;
}

/// The error for a name that is not in the list: says the nearest, or all.
template <class Entry>
Error unknown(std::string_view kind, std::string_view name, const std::vector<Entry>& entries) {
  std::vector<std::string> names;
  for (const Entry& entry : entries) names.push_back(entry.name);
  std::string what = "no " + std::string(kind) + " is named '" + std::string(name) + "'";
  if (const std::string nearest = protocol::nearest_name(name, names); !nearest.empty()) {
    what += "; did you mean '" + nearest + "'?";
  } else {
    what += "; there are";
    for (const std::string& known : names) what += (&known == &names.front() ? " " : ", ") + known;
  }
  return Error(Errc::not_found, what);
}

nlohmann::json describe_traits(const Traits& traits) {
  nlohmann::json passes = nlohmann::json::array();
  for (const Reduction pass : traits.passes) passes.push_back(pass == Reduction::sum ? "sum" : "gather");
  return {{"passes", passes},        {"lossless", traits.lossless}, {"biased", traits.biased},
          {"sparse", traits.sparse}, {"stateful", traits.stateful}, {"warmup", traits.warmup_epochs > 0}};
}

/// Traits with default parameters: those that decide which memories fit do not depend on them.
Traits default_traits(const CompressorEntry& entry) {
  const auto made = entry.make(nullptr);
  ensure(made.has_value(), "a compressor refuses its own defaults");
  return (*made)->traits();
}

}  // namespace

Catalog& Catalog::add(CompressorEntry entry) {
  ensure(find(compressors_, entry.name) == nullptr, "two compressors of one name");
  compressors_.push_back(std::move(entry));
  return *this;
}

Catalog& Catalog::add(MemoryEntry entry) {
  ensure(find(memories_, entry.name) == nullptr, "two memories of one name");
  memories_.push_back(std::move(entry));
  return *this;
}

Result<std::unique_ptr<Compressor>> Catalog::make_compressor(std::string_view name,
                                                             const nlohmann::json& params) const {
  const CompressorEntry* entry = find(compressors_, name);
  if (entry == nullptr) return unknown("compressor", name, compressors_);
  return entry->make(params);
}

Result<Compression> Catalog::make(const CompressionRequest& request) const {
  auto compressor = make_compressor(request.compressor, request.params);
  if (!compressor) return compressor.error();
  const std::string& wanted =
      request.memory.empty() ? find(compressors_, request.compressor)->default_memory : request.memory;
  const MemoryEntry* entry = find(memories_, wanted);
  if (entry == nullptr) return unknown("memory", wanted, memories_);
  if (const auto reason = entry->misfit((*compressor)->traits())) {
    return Error(Errc::invalid_argument,
                 "memory '" + wanted + "' does not fit compressor '" + request.compressor + "': " + *reason);
  }
  auto memory = entry->make(request.memory_params, request.setting);
  if (!memory) return memory.error();
  return Compression{std::move(*compressor), std::move(*memory)};
}

nlohmann::json Catalog::describe() const {
  nlohmann::json compressors = nlohmann::json::array();
  for (const CompressorEntry& entry : compressors_) {
    const Traits traits = default_traits(entry);
    nlohmann::json fitting = nlohmann::json::array();
    for (const MemoryEntry& memory : memories_) {
      if (!memory.misfit(traits)) fitting.push_back(memory.name);
    }
    compressors.push_back({{"name", entry.name},
                           {"summary", entry.summary},
                           {"params", entry.schema()},
                           {"default_memory", entry.default_memory},
                           {"memories", fitting},
                           {"traits", describe_traits(traits)}});
  }
  nlohmann::json memories = nlohmann::json::array();
  for (const MemoryEntry& entry : memories_) {
    memories.push_back({{"name", entry.name},
                        {"summary", entry.summary},
                        {"params", entry.schema()},
                        {"owns_momentum", entry.traits.owns_momentum}});
  }
  return {{"compressors", compressors}, {"memories", memories}};
}

}  // namespace weir::compressors
