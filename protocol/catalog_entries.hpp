#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace weir::protocol {

/// The entry of that name in one of the lists of a catalog (what `weir-worker catalog` prints), or null.
const nlohmann::json* find_entry(const nlohmann::json& catalog, const char* list, std::string_view name);

/// What a compressor fits with the job's parameters, which are complete: the catalog's answer for the values of those
/// that it depends on.
nlohmann::json fits_of(const nlohmann::json& compressor, const nlohmann::json& params);

/// Those of a memory's parameters with which it has a momentum of its own, because they are not the default.
std::vector<std::string> params_of_own_momentum(const nlohmann::json& memory, const nlohmann::json& params);

}  // namespace weir::protocol
