#include "cluster/scheduler.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <optional>

namespace weir::cluster {
namespace {

using protocol::Resources;

double amount_of(const Resources& resources, const std::string& name) {
  const auto found = resources.find(name);
  return found == resources.end() ? 0 : found->second;
}

/// A little slack, so that ten tenths of a core fit into one.
bool covers(double have, double want) { return have >= want - 1e-9 * std::max(1.0, want); }

/// How many such workers fit into `room`; workers that want nothing fit without end.
std::uint32_t capacity(const Resources& room, const Resources& per_worker) {
  double fit = 1'000'000;
  for (const auto& [name, want] : per_worker) {
    if (want > 0) fit = std::min(fit, std::floor(amount_of(room, name) / want * (1 + 1e-9) + 1e-9));
  }
  return static_cast<std::uint32_t>(std::max(0.0, fit));
}

enum class Room { free, total };

const Resources& room_of(const NodeOffer& node, Room room) { return room == Room::free ? node.free : node.total; }

std::vector<std::uint32_t> capacities(const Gang& gang, std::span<const NodeOffer> nodes, Room room) {
  std::vector<std::uint32_t> result;
  for (const auto& node : nodes) {
    result.push_back(node.open ? capacity(room_of(node, room), gang.per_worker) : 0);
  }
  return result;
}

std::uint64_t sum(const std::vector<std::uint32_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

/// Workers per node for a gang that fits.
std::vector<std::uint32_t> shares(const Gang& gang, const std::vector<std::uint32_t>& room) {
  std::vector<std::uint32_t> taken(room.size(), 0);
  std::uint32_t left = gang.workers;
  if (gang.placement == protocol::Placement::pack) {
    while (left > 0) {
      // The tightest node that takes all that is left, else the roomiest.
      std::optional<std::size_t> best;
      for (std::size_t i = 0; i < room.size(); ++i) {
        if (taken[i] > 0 || room[i] == 0) continue;
        const bool takes_all = room[i] >= left;
        const bool best_takes_all = best && room[*best] >= left;
        const bool better = !best || (takes_all != best_takes_all ? takes_all
                                      : takes_all                 ? room[i] < room[*best]
                                                                  : room[i] > room[*best]);
        if (better) best = i;
      }
      taken[*best] = std::min(left, room[*best]);
      left -= taken[*best];
    }
    return taken;
  }
  while (left > 0) {  // one round gives each node that has room one more worker
    for (std::size_t i = 0; i < room.size() && left > 0; ++i) {
      if (taken[i] == room[i]) continue;
      ++taken[i];
      --left;
    }
  }
  return taken;
}

std::string amount_text(const std::string& name, double amount) {
  char text[48];
  constexpr double gib = 1024.0 * 1024 * 1024;
  if (name == "memory" && amount >= gib / 1024) {
    const bool large = amount >= gib;
    std::snprintf(text, sizeof text, "%.4g%s", amount / (large ? gib : gib / 1024), large ? "GiB" : "MiB");
  } else {
    std::snprintf(text, sizeof text, "%.6g", amount);
  }
  return text;
}

/// "node a lacks cpu: 1 free of 2, a worker needs 4", for each node.
std::string lacks(const Gang& gang, std::span<const NodeOffer> nodes, Room room) {
  std::string text;
  for (const auto& node : nodes) {
    text += text.empty() ? "" : "; ";
    text += "node " + node.name;
    if (!node.open) {
      text += " is draining";
      continue;
    }
    std::string missing;
    for (const auto& [name, want] : gang.per_worker) {
      const double have = amount_of(room_of(node, room), name);
      if (covers(have, want)) continue;
      missing += (missing.empty() ? " lacks " : " and ") + name + " (";
      missing += amount_text(name, have) +
                 (room == Room::free ? " free of " + amount_text(name, amount_of(node.total, name)) : "");
      missing += ", a worker needs " + amount_text(name, want) + ")";
    }
    const auto fitting = std::min(gang.workers, capacity(room_of(node, room), gang.per_worker));
    text += missing.empty() ? " has room for " + std::to_string(fitting) : missing;
  }
  return text;
}

/// The greatest amount of one resource per worker with which the gang would fit, all else as asked; none if even 0 of
/// it would not help.
std::optional<double> greatest_fitting(const Gang& gang, std::span<const NodeOffer> nodes, const std::string& name) {
  std::vector<double> candidates;
  for (const auto& node : nodes) {
    for (std::uint32_t share = 1; node.open && share <= gang.workers; ++share) {
      candidates.push_back(amount_of(node.total, name) / share);
    }
  }
  std::sort(candidates.rbegin(), candidates.rend());
  for (const double candidate : candidates) {
    if (candidate <= 0) break;
    Gang smaller = gang;
    smaller.per_worker[name] = candidate;
    if (sum(capacities(smaller, nodes, Room::total)) >= gang.workers) return candidate;
  }
  return std::nullopt;
}

/// What to change so that the gang fits into the empty cluster.
std::string smallest_change(const Gang& gang, std::span<const NodeOffer> nodes) {
  std::string text;
  const auto suggest = [&text](const std::string& change) { text += (text.empty() ? "" : ", or ") + change; };
  const auto fitting = sum(capacities(gang, nodes, Room::total));
  if (fitting > 0) suggest("ask for " + std::to_string(fitting) + (fitting == 1 ? " worker" : " workers"));
  for (const auto& [name, want] : gang.per_worker) {
    const auto amount = greatest_fitting(gang, nodes, name);
    if (amount && !covers(*amount, want)) suggest("ask for " + name + "=" + amount_text(name, *amount) + " per worker");
  }
  const auto missing = gang.workers - static_cast<std::uint32_t>(fitting);
  Resources more;
  for (const auto& [name, want] : gang.per_worker) more[name] = want * missing;
  suggest("add a node with " + to_text(more));
  return text;
}

}  // namespace

PlacementResult place(const Gang& gang, std::span<const NodeOffer> nodes) {
  PlacementResult result;
  const auto room = capacities(gang, nodes, Room::free);
  if (sum(room) >= gang.workers) {
    const auto taken = shares(gang, room);
    for (std::size_t i = 0; i < nodes.size(); ++i) result.nodes.insert(result.nodes.end(), taken[i], nodes[i].id);
    return result;
  }
  const std::string wanted = std::to_string(gang.workers) + (gang.workers == 1 ? " worker" : " workers") + " with " +
                             to_text(gang.per_worker) + (gang.workers == 1 ? "" : " each");
  result.possible = sum(capacities(gang, nodes, Room::total)) >= gang.workers;
  if (nodes.empty()) {
    result.reason = "no node has joined; " + wanted + " are needed: start nodes with weir node --head ADDRESS";
  } else if (result.possible) {
    result.reason = "waits for room for " + wanted + ": " + lacks(gang, nodes, Room::free);
  } else {
    result.reason = "the cluster has no room for " + wanted + " even when idle: " + lacks(gang, nodes, Room::total) +
                    "; to fit: " + smallest_change(gang, nodes);
  }
  return result;
}

std::string to_text(const Resources& resources) {
  std::string text;
  for (const auto& [name, amount] : resources)
    text += (text.empty() ? "" : " ") + name + "=" + amount_text(name, amount);
  return text.empty() ? "nothing" : text;
}

}  // namespace weir::cluster
