#include "protocol/exchange_plan.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace weir::protocol {

std::vector<RouteShare> routes_of(const ExchangePlan& plan) {
  std::map<std::pair<std::string, std::string>, RouteShare> shares;
  for (const auto& bucket : plan.buckets) {
    RouteShare& share = shares[{bucket.form, bucket.topology}];
    ++share.buckets;
    share.bytes += bucket.bytes;
  }
  std::vector<RouteShare> routes;
  for (auto& [way, share] : shares) {
    std::tie(share.form, share.topology) = way;
    routes.push_back(std::move(share));
  }
  return routes;
}

std::string to_string(std::span<const RouteShare> routes) {
  std::string text;
  for (const auto& route : routes) {
    text += (text.empty() ? "" : "; ") + route.form + " over " + route.topology + ", " + std::to_string(route.buckets) +
            (route.buckets == 1 ? " bucket" : " buckets");
  }
  return text.substr(0, ExchangePlan::text_bytes_max);
}

bool is_on_trial(const ExchangePlan& plan) {
  return std::ranges::any_of(plan.candidates, [](const auto& candidate) { return !candidate.measured_seconds; });
}

}  // namespace weir::protocol
