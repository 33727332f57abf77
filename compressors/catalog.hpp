#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "compressors/compressor.hpp"
#include "compressors/memory.hpp"
#include "protocol/catalog.hpp"

namespace weir::compressors {

/// A compressor in the catalog. Beside what protocol::CatalogEntry asks for, its class has
///
///     static constexpr std::string_view default_memory;
///
/// and, if the default memory needs other parameters than that memory's own defaults,
///
///     static nlohmann::json default_memory_params();
struct CompressorEntry : protocol::CatalogEntry<Compressor> {
  std::string default_memory;
  std::function<nlohmann::json()> default_memory_params;

  template <class C>
  static CompressorEntry of(const protocol::CatalogWords& words) {
    return {CatalogEntry::of<C>(words), std::string(C::default_memory), [] {
              if constexpr (requires { C::default_memory_params(); }) {
                return C::default_memory_params();
              } else {
                return nlohmann::json::object();
              }
            }};
  }
};

/// A memory in the catalog. Beside what protocol::CatalogEntry asks for, its class has
///
///     static constexpr MemoryTraits type_traits;
///     static std::optional<std::string> misfit(const Compressor& compressor);  // the reason, if it does not fit
struct MemoryEntry : protocol::CatalogEntry<Memory, const MemorySetting&> {
  MemoryTraits traits;
  std::function<std::optional<std::string>(const Compressor&)> misfit;

  template <class M>
  static MemoryEntry of(const protocol::CatalogWords& words) {
    return {CatalogEntry::of<M>(words), M::type_traits, &M::misfit};
  }

  /// {"name", "summary", "params", "owns_momentum", "momentum_params": those which, if not the default, are a momentum
  /// of the memory's own, "differences_misfit": why it does not fit differences between models, if it does not,
  /// "pushes_misfit": the same of pushes to servers}
  nlohmann::json describe() const;
};

/// A compressor and the memory that works with it.
struct Compression {
  /// Whether both work on tensors that lie there where they are.
  bool codes_on(at::Device device) const { return compressor->codes_on(device) && memory->codes_on(device); }

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

/// The compressors and memories that a job can name, and which of them fit together. A value; read-only once built.
class CompressionCatalog {
 public:
  CompressionCatalog();

  template <class C>
  CompressionCatalog& add_compressor() {
    compressors_.add<C>();
    return *this;
  }
  template <class M>
  CompressionCatalog& add_memory() {
    memories_.add<M>();
    return *this;
  }
  /// Adding a name twice is a programming error.
  CompressionCatalog& add(CompressorEntry entry);

  const std::vector<CompressorEntry>& compressors() const { return compressors_.entries(); }
  const std::vector<MemoryEntry>& memories() const { return memories_.entries(); }

  /// Creates the compressor and its memory. Fails with: not_found (no such compressor or memory; names the nearest),
  /// invalid_argument (a parameter, or the memory does not fit the compressor; says why).
  Result<Compression> make(const CompressionRequest& request) const;
  Result<std::unique_ptr<Compressor>> make_compressor(std::string_view name, const nlohmann::json& params) const;

  /// {"compressors": [{name, summary, params, default_memory, default_memory_params, memory_for_differences, memories,
  /// memory_misfits, differences_misfit, variants, traits}], "memories": [what MemoryEntry::describe() says]}, where
  /// `params` is a JSON schema, `memories` are those that fit the compressor with default parameters, `memory_misfits`
  /// maps each of the others to the reason, `memory_for_differences` is the default where the ranks exchange
  /// differences between models, `differences_misfit` is why the compressor does not fit there, if it does not (so are
  /// `neighbours_misfit` where they exchange with neighbours, `pushes_misfit` where workers push gradients to servers,
  /// and `owners_misfit`, `regions_misfit` and `partners_misfit` over topologies whose payloads go to those), and
  /// `variants` says what fits with other parameters (variants_of).
  nlohmann::json describe() const;

 private:
  protocol::Catalog<CompressorEntry> compressors_;
  protocol::Catalog<MemoryEntry> memories_;
};

/// All compressors and memories of this folder. catalog.cpp is the only file that knows them all.
const CompressionCatalog& builtin();

}  // namespace weir::compressors
