#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/schema.hpp"

namespace weir::protocol {

/// Conditions that a job makes its workers train under, as if their machines differed: parameters that every training
/// mode takes beside its own.
struct Conditions {
  std::vector<double> slowdown;        ///< by rank: computing takes so many times as long; 1 for the rest
  std::vector<std::string> link_rate;  ///< by rank: "none" or "100mbit", of its sockets; none for the rest

  double slowdown_of(std::uint32_t rank) const { return rank < slowdown.size() ? slowdown[rank] : 1; }
  /// Bytes per second in each direction; 0: no limit.
  double link_bytes_per_second(std::uint32_t rank) const;
};

/// Adds the parameters to the schema of a mode's own.
nlohmann::json with_conditions(nlohmann::json schema);
/// The parameters of the mode's own.
nlohmann::json without_conditions(nlohmann::json params);

/// Whether a job limits what a worker's sockets carry. `spec` follows the schema.
bool limits_links(const nlohmann::json& spec);

/// Reads them from training.params, where they may be missing. `params` follows the schema.
Conditions read_conditions(const nlohmann::json& params);

/// Bits per second of "none" (0), "10kbit", "2.5mbit" or "1gbit"; nothing if it is none of these.
std::optional<double> parse_rate(std::string_view text);

/// What the schema cannot say of a job's conditions: rates that are none, and entries for workers that there are not.
std::vector<Problem> check_conditions(const nlohmann::json& spec);

}  // namespace weir::protocol
