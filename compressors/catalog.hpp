#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "compressors/compressor.hpp"
#include "compressors/memory.hpp"

namespace weir::compressors {

/// A compressor as the catalog lists it: these static members and the factory.
///
///     static constexpr std::string_view type_name, summary, default_memory;
///     static nlohmann::json schema();                                               // of the parameters
///     static Result<std::unique_ptr<Compressor>> make(const nlohmann::json& params);  // validates them
///
/// and, if its default memory wants other parameters than that memory's own defaults,
///
///     static nlohmann::json default_memory_params();
struct CompressorEntry {
  std::string name;
  std::string summary;
  std::string default_memory;
  std::function<nlohmann::json()> default_memory_params;  ///< may be empty: none
  std::function<nlohmann::json()> schema;
  std::function<Result<std::unique_ptr<Compressor>>(const nlohmann::json&)> make;
};

/// A memory as the catalog lists it: type_name, summary and schema() as above, and
///
///     static constexpr MemoryTraits type_traits;
///     static std::optional<std::string> misfit(const Compressor& compressor);  // why it does not fit, if it does not
///     static Result<std::unique_ptr<Memory>> make(const nlohmann::json& params, const MemorySetting& setting);
struct MemoryEntry {
  std::string name;
  std::string summary;
  MemoryTraits traits;
  std::function<nlohmann::json()> schema;
  std::function<std::optional<std::string>(const Compressor&)> misfit;
  std::function<Result<std::unique_ptr<Memory>>(const nlohmann::json&, const MemorySetting&)> make;
};

/// A compressor with the memory that goes with it.
struct Compression {
  std::unique_ptr<Compressor> compressor;
  std::unique_ptr<Memory> memory;
};

/// What a job asks for, from its spec. A null `params` means none given.
struct CompressionRequest {
  std::string compressor;
  std::reference_wrapper<const nlohmann::json> params;
  std::string memory;  ///< empty: the compressor's default
  /// With the compressor's default memory, what is not given here comes from its default_memory_params first.
  std::reference_wrapper<const nlohmann::json> memory_params;
  MemorySetting setting;
};

/// The compressors and memories that a job can name. A value; read-only once built.
class Catalog {
 public:
  template <class C>
  Catalog& add_compressor() {
    CompressorEntry entry{std::string(C::type_name),
                          std::string(C::summary),
                          std::string(C::default_memory),
                          nullptr,
                          &C::schema,
                          &C::make};
    if constexpr (requires { C::default_memory_params(); }) entry.default_memory_params = &C::default_memory_params;
    return add(std::move(entry));
  }
  template <class M>
  Catalog& add_memory() {
    return add(MemoryEntry{std::string(M::type_name), std::string(M::summary), M::type_traits, &M::schema, &M::misfit,
                           &M::make});
  }
  /// A name that is there already is a bug of the caller.
  Catalog& add(CompressorEntry entry);
  Catalog& add(MemoryEntry entry);

  const std::vector<CompressorEntry>& compressors() const { return compressors_; }
  const std::vector<MemoryEntry>& memories() const { return memories_; }

  /// Fails with: not_found (no such compressor or memory; names the nearest), invalid_argument (a parameter,
  /// or the memory does not fit the compressor; says why).
  Result<Compression> make(const CompressionRequest& request) const;
  Result<std::unique_ptr<Compressor>> make_compressor(std::string_view name, const nlohmann::json& params) const;

  /// {"compressors": [{name, summary, params, default_memory, default_memory_params, memories, memory_misfits,
  /// traits}], "memories": [{name, summary, params, owns_momentum}]}, where `params` is a JSON schema, `memories` are
  /// those that fit a compressor with default parameters, and `memory_misfits` says of the others why they do not.
  nlohmann::json describe() const;

 private:
  std::vector<CompressorEntry> compressors_;
  std::vector<MemoryEntry> memories_;
};

/// Everything in this folder. The one place that knows every compressor is catalog.cpp.
const Catalog& builtin();

}  // namespace weir::compressors
