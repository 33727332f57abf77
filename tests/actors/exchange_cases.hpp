#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "compressors/catalog.hpp"

namespace weir::actors::testing {

/// A compressor with a memory, both with parameters, as the exchange is tried with them.
struct ExchangeCase {
  std::string compressor;
  nlohmann::json params;
  std::string memory;
  nlohmann::json memory_params;
  compressors::MemorySetting setting;
  std::size_t number = 0;  ///< among those of this compressor and memory

  std::string name() const { return compressor + "_with_" + memory + "_" + std::to_string(number); }
  compressors::Compression make() const;
};

void PrintTo(const ExchangeCase& it, std::ostream* out);

/// The parameters that a compressor is tried with. Where it has any, there are two sets at least, none is that of the
/// defaults, and every parameter is away from its default in one of them. Of what takes no parameters: one empty set.
const std::map<std::string, std::vector<nlohmann::json>>& compressor_params();

/// The same for a memory, with the setting that goes with it.
struct MemoryParams {
  nlohmann::json params;
  compressors::MemorySetting setting = {};
};
const std::map<std::string, std::vector<MemoryParams>>& memory_params();

/// Every compressor of the catalog with every memory that fits it. Each set of the one meets a set of the other: as
/// many cases as the larger number of sets.
std::vector<ExchangeCase> exchange_cases();

}  // namespace weir::actors::testing
