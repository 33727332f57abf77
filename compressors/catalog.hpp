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

/// A compressor in the catalog. Its class has these static members and this factory:
///
///     static constexpr std::string_view type_name, summary, default_memory;
///     static nlohmann::json schema();                                               // of the parameters
///     static Result<std::unique_ptr<Compressor>> make(const nlohmann::json& params);  // validates them
///
/// A class without parameters has neither of the last two, but a default constructor. If the default memory needs other
/// parameters than that memory's own defaults, the class also has
///
///     static nlohmann::json default_memory_params();
struct CompressorEntry {
  std::string name;
  std::string summary;
  std::string default_memory;
  std::function<nlohmann::json()> default_memory_params;  ///< may be empty: no parameters
  std::function<nlohmann::json()> schema;
  std::function<Result<std::unique_ptr<Compressor>>(const nlohmann::json&)> make;
};

/// A memory in the catalog. Its class has type_name, summary and, if it has parameters, schema() and make() as above,
/// and
///
///     static constexpr MemoryTraits type_traits;
///     static std::optional<std::string> misfit(const Compressor& compressor);  // the reason, if it does not fit
///     static Result<std::unique_ptr<Memory>> make(const nlohmann::json& params, const MemorySetting& setting);
struct MemoryEntry {
  std::string name;
  std::string summary;
  MemoryTraits traits;
  std::function<nlohmann::json()> schema;
  std::function<std::optional<std::string>(const Compressor&)> misfit;
  std::function<Result<std::unique_ptr<Memory>>(const nlohmann::json&, const MemorySetting&)> make;
};

/// The schema of a class without parameters, and the check that none are given. Fails with: invalid_argument.
nlohmann::json no_params_schema();
Result<void> check_no_params(std::string_view owner, const nlohmann::json& params);

/// A compressor and the memory that works with it.
struct Compression {
  std::unique_ptr<Compressor> compressor;
  std::unique_ptr<Memory> memory;
};

/// What a job's spec asks for. Null parameters mean none given.
struct CompressionRequest {
  std::string compressor;
  std::reference_wrapper<const nlohmann::json> params;
  std::string memory;  ///< empty: the compressor's default
  /// If `memory` is the compressor's default, parameters not given here are taken from its default_memory_params.
  std::reference_wrapper<const nlohmann::json> memory_params;
  MemorySetting setting;
};

/// The compressors and memories that a job can name. A value; read-only once built.
class Catalog {
 public:
  template <class C>
  Catalog& add_compressor() {
    CompressorEntry entry{.name = std::string(C::type_name),
                          .summary = std::string(C::summary),
                          .default_memory = std::string(C::default_memory),
                          .default_memory_params = nullptr,
                          .schema = &no_params_schema,
                          .make = [](const nlohmann::json& params) -> Result<std::unique_ptr<Compressor>> {
                            if constexpr (requires { C::make(params); }) {
                              return C::make(params);
                            } else {
                              if (auto none = check_no_params(C::type_name, params); !none) return none.error();
                              return std::make_unique<C>();
                            }
                          }};
    if constexpr (requires { C::schema(); }) entry.schema = &C::schema;
    if constexpr (requires { C::default_memory_params(); }) entry.default_memory_params = &C::default_memory_params;
    return add(std::move(entry));
  }
  template <class M>
  Catalog& add_memory() {
    MemoryEntry entry{
        .name = std::string(M::type_name),
        .summary = std::string(M::summary),
        .traits = M::type_traits,
        .schema = &no_params_schema,
        .misfit = &M::misfit,
        .make = [](const nlohmann::json& params, const MemorySetting& setting) -> Result<std::unique_ptr<Memory>> {
          if constexpr (requires { M::make(params, setting); }) {
            return M::make(params, setting);
          } else {
            const std::string owner = "memory " + std::string(M::type_name);
            if (auto none = check_no_params(owner, params); !none) return none.error();
            return std::make_unique<M>();
          }
        }};
    if constexpr (requires { M::schema(); }) entry.schema = &M::schema;
    return add(std::move(entry));
  }
  /// Adding a name twice is a programming error.
  Catalog& add(CompressorEntry entry);
  Catalog& add(MemoryEntry entry);

  const std::vector<CompressorEntry>& compressors() const { return compressors_; }
  const std::vector<MemoryEntry>& memories() const { return memories_; }

  /// Creates the compressor and its memory. Fails with: not_found (no such compressor or memory; names the nearest),
  /// invalid_argument (a parameter, or the memory does not fit the compressor; says why).
  Result<Compression> make(const CompressionRequest& request) const;
  Result<std::unique_ptr<Compressor>> make_compressor(std::string_view name, const nlohmann::json& params) const;

  /// {"compressors": [{name, summary, params, default_memory, default_memory_params, memories, memory_misfits,
  /// traits}], "memories": [{name, summary, params, owns_momentum}]}, where `params` is a JSON schema, `memories` are
  /// those that fit the compressor with default parameters, and `memory_misfits` maps each of the others to the reason.
  nlohmann::json describe() const;

 private:
  std::vector<CompressorEntry> compressors_;
  std::vector<MemoryEntry> memories_;
};

/// All compressors and memories of this folder. catalog.cpp is the only file that knows them all.
const Catalog& builtin();

}  // namespace weir::compressors
