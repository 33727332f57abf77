#include "training/exchange/traffic_account.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace weir::training {
namespace {

using protocol::ByteCounts;
using protocol::TrafficTotals;

std::uint64_t all_of(const ByteCounts& bytes) { return bytes.sent + bytes.received; }

/// Nothing where `part` is more: a count that is too high is never made of one that is too low.
ByteCounts left_of(const ByteCounts& all, const ByteCounts& part) {
  return {all.sent - std::min(all.sent, part.sent), all.received - std::min(all.received, part.received)};
}

}  // namespace

TrafficTotals totals_of(const collectives::Fabric& group, const TrafficAccount* account) {
  TrafficTotals totals;
  if (account != nullptr) account->count(totals);
  ByteCounts other;
  for (std::uint32_t rank = 0; rank < group.size(); ++rank) {
    if (rank == group.rank()) continue;
    const auto traffic = group.traffic_with(rank);
    const ByteCounts bytes{traffic.sent_bytes, traffic.received_bytes};
    if (all_of(bytes) > 0) totals.links.push_back({rank, bytes});
    other += bytes;
  }
  for (const auto& phase : totals.phases) other = left_of(other, phase.bytes);
  totals.phases.push_back({"other", other});
  return totals;
}

void count_tensors(TrafficTotals& totals, std::span<const NamedTensor> parameters, std::span<const ByteCounts> bytes,
                   const ByteCounts& all) {
  std::vector<std::uint32_t> order(bytes.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto shown = order.begin() + static_cast<std::ptrdiff_t>(std::min(order.size(), TrafficTotals::tensors_max));
  std::partial_sort(order.begin(), shown, order.end(), [bytes](std::uint32_t a, std::uint32_t b) {
    return std::pair(all_of(bytes[b]), a) < std::pair(all_of(bytes[a]), b);
  });
  totals.rest = all;
  for (auto p = order.begin(); p != shown; ++p) {
    if (all_of(bytes[*p]) == 0) break;
    totals.tensors.push_back({parameters[*p].name.substr(0, TrafficTotals::name_bytes_max), bytes[*p]});
    totals.rest = left_of(totals.rest, bytes[*p]);
  }
}

}  // namespace weir::training
