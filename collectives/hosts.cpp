#include "collectives/hosts.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace weir::collectives {
namespace {

std::vector<std::vector<std::uint32_t>> ranks_by_host(const Communicator& group) {
  std::map<std::uint32_t, std::size_t> index;
  std::vector<std::vector<std::uint32_t>> hosts;
  for (std::uint32_t rank = 0; rank < group.size(); ++rank) {
    const auto [at, first] = index.try_emplace(group.host_of(rank), hosts.size());
    if (first) hosts.emplace_back();
    hosts[at->second].push_back(rank);
  }
  return hosts;
}

std::size_t host_with(std::uint32_t rank, const std::vector<std::vector<std::uint32_t>>& hosts) {
  const auto own = std::ranges::find_if(hosts, [&](const auto& ranks) { return std::ranges::count(ranks, rank) > 0; });
  return static_cast<std::size_t>(own - hosts.begin());
}

}  // namespace

Hosts::Hosts(Communicator& group)
    : ranks_(ranks_by_host(group)), own_(host_with(group.rank(), ranks_)), neighbours_(group, ranks_[own_]) {
  if (neighbours_.rank() > 0) return;
  std::vector<std::uint32_t> leaders;
  for (const auto& ranks : ranks_) leaders.push_back(ranks.front());
  leaders_.emplace(group, std::move(leaders));
}

}  // namespace weir::collectives
