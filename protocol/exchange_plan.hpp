#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "protocol/traffic.hpp"

/// What a plan of the exchange says, in short.
namespace weir::protocol {

/// Buckets that travel in the same way.
struct RouteShare {
  std::string form;
  std::string topology;
  std::uint64_t buckets = 0;  ///< how many
  std::uint64_t bytes = 0;    ///< of their gradients as float32

  friend bool operator==(const RouteShare&, const RouteShare&) = default;
};

/// The plan's buckets, those of the same form and topology together, sorted by both.
std::vector<RouteShare> routes_of(const ExchangePlan& plan);

/// "bfloat16 over ring, 12 buckets; float32 over tree, 1 bucket", at most ExchangePlan::text_bytes_max bytes.
std::string to_string(std::span<const RouteShare> routes);

/// Whether a candidate has not been tried yet: the workers will go on to it after a few steps.
bool is_on_trial(const ExchangePlan& plan);

}  // namespace weir::protocol
