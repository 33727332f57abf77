#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "compressors/catalog.hpp"

namespace weir::training::testing {

/// A compressor and a memory, both with parameters, with which the exchange is tested.
struct ExchangeCase {
  std::string compressor;
  nlohmann::json params;
  std::string memory;
  nlohmann::json memory_params;
  compressors::MemorySetting setting;
  std::size_t number = 0;  ///< counts the cases of this compressor and memory

  std::string name() const { return compressor + "_with_" + memory + "_" + std::to_string(number); }
  compressors::Compression make() const;
};

void PrintTo(const ExchangeCase& it, std::ostream* out);

/// The parameter sets with which a compressor is tested. A compressor with parameters has at least two sets, none of
/// which is the defaults; every parameter differs from its default in one of them. A compressor without parameters has
/// one empty set.
const std::map<std::string, std::vector<nlohmann::json>>& compressor_params();

/// The same for a memory, with the setting that belongs to it.
struct MemoryParams {
  nlohmann::json params;
  compressors::MemorySetting setting = {};
};
const std::map<std::string, std::vector<MemoryParams>>& memory_params();

/// Every compressor of the catalog with every memory that fits it. The parameter sets of both are paired, with as many
/// cases as the larger number of sets.
std::vector<ExchangeCase> exchange_cases();

}  // namespace weir::training::testing
