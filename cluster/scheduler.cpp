#include "cluster/scheduler.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <optional>
#include <queue>
#include <utility>

namespace weir::cluster {
namespace {

using protocol::Resources;

constexpr std::size_t nodes_named_max = 10;  // in an explanation
constexpr std::size_t gpus_named_max = 8;    // of each
constexpr int amounts_suggested_max = 4;     // of different resources, each of which would be enough

double amount_of(const Resources& resources, const std::string& name) {
  const auto found = resources.find(name);
  return found == resources.end() ? 0 : found->second;
}

/// A little slack, so that ten tenths of a core fit into one.
bool covers(double have, double want) { return have >= want - 1e-9 * std::max(1.0, want); }

bool has_labels(const NodeOffer& node, const Gang::Group& group) {
  return std::all_of(group.labels.begin(), group.labels.end(), [&node](const auto& label) {
    const auto found = node.labels.find(label.first);
    return found != node.labels.end() && found->second == label.second;
  });
}

/// Whether a node may take workers of the gang at all, however much room it has.
bool eligible(const NodeOffer& node, const Gang::Group& group) { return node.open && has_labels(node, group); }

enum class Room { free, total };

const Resources& room_of(const NodeOffer& node, Room room) { return room == Room::free ? node.free : node.total; }
const GpuRoom& gpus_of(const NodeOffer& node, Room room) {
  return room == Room::free ? node.gpus_free : node.gpus_total;
}

/// Whether a resource is made of devices on that node, so that its sum does not tell what fits.
bool has_devices(const NodeOffer& node, const std::string& resource) { return resource == "gpu" && !node.gpus.empty(); }

/// How many such workers fit into the room of a node: at most a million, which workers without needs reach.
std::uint32_t capacity(const NodeOffer& node, Room room, const Resources& each) {
  double fit = 1'000'000;
  for (const auto& [name, want] : each) {
    if (want <= 0) continue;
    if (has_devices(node, name)) {
      fit = std::min(fit, static_cast<double>(gpu_capacity(gpus_of(node, room), want)));
    } else {
      fit = std::min(fit, std::floor(amount_of(room_of(node, room), name) / want * (1 + 1e-9) + 1e-9));
    }
  }
  return static_cast<std::uint32_t>(std::max(0.0, fit));
}

std::vector<std::uint32_t> capacities(const Gang::Group& group, std::span<const NodeOffer> nodes, Room room) {
  std::vector<std::uint32_t> result;
  for (const auto& node : nodes) {
    result.push_back(eligible(node, group) ? capacity(node, room, group.each) : 0);
  }
  return result;
}

std::uint64_t sum(const std::vector<std::uint32_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

/// Processes per node for a group that fits.
std::vector<std::uint32_t> shares(const Gang::Group& group, protocol::Placement placement,
                                  const std::vector<std::uint32_t>& room) {
  std::vector<std::uint32_t> taken(room.size(), 0);
  std::uint32_t left = group.count;
  if (placement == protocol::Placement::pack) {
    while (left > 0) {
      // The smallest node that holds all remaining workers, else the largest.
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

/// "worker", "server", "state server"
std::string noun_of(const Gang::Group& group) {
  return group.role == protocol::Role::state_server ? "state server" : std::string(to_string(group.role));
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

/// The text of an amount to ask for where `fits` fits: it is not rounded up, so that what it says fits, too.
std::string suggested_text(const std::string& name, double fits) {
  constexpr double gib = 1024.0 * 1024 * 1024;
  const bool is_memory = name == "memory" && fits >= gib / 1024;
  const double unit = !is_memory ? 1 : fits >= gib ? gib : gib / 1024;
  // One unit in the last of the digits that amount_text() prints.
  const double step = unit * std::pow(10.0, std::floor(std::log10(fits / unit)) - (is_memory ? 3 : 5));
  const double nearest = std::round(fits / step) * step;
  return amount_text(name, covers(fits, nearest) ? nearest : std::floor(fits / step) * step);
}

/// "GPU 0 has 0.5 free, GPU 1 has 0.25 free; a worker needs a whole one"
std::string gpus_text(const Gang::Group& group, const NodeOffer& node, Room room, double want) {
  std::string text;
  const std::size_t named = std::min(node.gpus.size(), gpus_named_max);
  for (std::size_t i = 0; i < named; ++i) {
    text += (text.empty() ? "GPU " : ", GPU ") + std::to_string(node.gpus[i]) + " has " +
            amount_text("gpu", gpus_of(node, room)[i]) + " free";
  }
  if (named < node.gpus.size()) text += " and " + std::to_string(node.gpus.size() - named) + " more";
  return text + "; a " + noun_of(group) + " needs " +
         (want < 1    ? amount_text("gpu", want) + " of one"
          : want == 1 ? "a whole one"
                      : amount_text("gpu", want) + " whole ones");
}

/// "; GPU 1 is lost"
std::string lost_text(const NodeOffer& node) {
  std::string text;
  const std::size_t named = std::min(node.gpus_lost.size(), gpus_named_max);
  for (std::size_t i = 0; i < named; ++i) text += "; GPU " + std::to_string(node.gpus_lost[i]) + " is lost";
  return text;
}

/// " lacks cpu (1 free of 2, a worker needs 4)", or how many workers the node has room for.
std::string lacks(const Gang::Group& group, const NodeOffer& node, Room room) {
  if (!node.open) return " is draining";
  std::string missing;
  const auto add = [&missing](const std::string& what) { missing += (missing.empty() ? " lacks " : " and ") + what; };
  for (const auto& [name, value] : group.labels) {
    const auto found = node.labels.find(name);
    if (found != node.labels.end() && found->second == value) continue;
    add("label " + name + "=" + value +
        (found == node.labels.end() ? std::string() : " (it has " + name + "=" + found->second + ")"));
  }
  for (const auto& [name, want] : group.each) {
    const double have = amount_of(room_of(node, room), name);
    const std::string lost = name == "gpu" ? lost_text(node) : "";
    if (has_devices(node, name)) {
      if (want <= 0 || gpu_capacity(gpus_of(node, room), want) > 0) continue;
      if (room == Room::free || covers(have, want)) {
        add("gpu (" + gpus_text(group, node, room, want) + lost + ")");
        continue;
      }
    }
    if (covers(have, want)) continue;
    add(name + " (" + amount_text(name, have) +
        (room == Room::free ? " free of " + amount_text(name, amount_of(node.total, name)) : "") + ", a " +
        noun_of(group) + " needs " + amount_text(name, want) + lost + ")");
  }
  if (!missing.empty()) return missing;
  return " has room for " + std::to_string(std::min(group.count, capacity(node, room, group.each)));
}

/// "node a lacks ...; node b has room for 2; and 148 more nodes".
std::string lacks(const Gang::Group& group, std::span<const NodeOffer> nodes, Room room) {
  std::string text;
  for (const auto& node : nodes.first(std::min(nodes.size(), nodes_named_max))) {
    text += (text.empty() ? "node " : "; node ") + node.name + lacks(group, node, room);
  }
  if (const auto more = nodes.size() - std::min(nodes.size(), nodes_named_max); more > 0) {
    text += "; and " + std::to_string(more) + (more == 1 ? " more node" : " more nodes");
  }
  return text;
}

std::string labels_text(const Gang::Group& group) {
  std::string text;
  for (const auto& [name, value] : group.labels) text += (text.empty() ? "" : " ") + name + "=" + value;
  return text;
}

/// What to change so that the gang fits into the empty cluster.
std::string smallest_change(const Gang::Group& group, std::span<const NodeOffer> nodes) {
  std::string text;
  const auto suggest = [&text](const std::string& change) { text += (text.empty() ? "" : ", or ") + change; };
  const auto fitting = sum(capacities(group, nodes, Room::total));
  if (fitting > 0) suggest("ask for " + protocol::counted(group.role, fitting));
  int suggested = 0;
  for (const auto& [name, want] : group.each) {
    if (suggested == amounts_suggested_max) break;
    double amount = greatest_fitting(group, nodes, name);
    if (name == "gpu" && amount > 1) amount = std::floor(amount);  // a process gets whole GPUs, or a part of one
    if (amount > 0 && !covers(amount, want)) {
      suggest("ask for " + name + "=" + suggested_text(name, amount) + " per " + noun_of(group));
      ++suggested;
    }
  }
  if (!group.labels.empty()) {
    Gang::Group anywhere = group;
    anywhere.labels.clear();
    if (sum(capacities(anywhere, nodes, Room::total)) >= group.count) {
      suggest("do not ask for nodes with " + labels_text(group));
    }
  }
  const auto missing = group.count - static_cast<std::uint32_t>(fitting);
  Resources more;
  for (const auto& [name, want] : group.each) more[name] = want * missing;
  suggest("add a node with " + to_text(more) + (group.labels.empty() ? "" : " and the labels " + labels_text(group)));
  return text;
}

std::string text_of(const Gang::Group& group) {
  std::string text =
      protocol::counted(group.role, group.count) + " with " + to_text(group.each) + (group.count == 1 ? "" : " each");
  if (!group.labels.empty()) text += " on nodes with " + labels_text(group);
  return text;
}

/// An attempt to place all groups, in the free room or in that of the idle cluster.
struct Trial {
  std::vector<std::string> nodes;       ///< node id by rank, as far as it went
  const Gang::Group* failed = nullptr;  ///< the first group without room; null: all fit
  std::vector<NodeOffer> taken_from;    ///< what the groups before that one leave; empty if it is the first

  /// What there is for the failed group. The nodes are copied only for gangs of several groups, of which one has room.
  std::span<const NodeOffer> left(std::span<const NodeOffer> nodes) const {
    return taken_from.empty() ? nodes : std::span<const NodeOffer>(taken_from);
  }
};

void take(NodeOffer& node, Room room, const Resources& each, std::uint32_t count) {
  if (const auto gpu = each.find("gpu"); gpu != each.end() && has_devices(node, "gpu")) {
    GpuRoom& gpus = room == Room::free ? node.gpus_free : node.gpus_total;
    for (std::uint32_t taken = 0; taken < count && book_gpus(gpus, gpu->second); ++taken) {
    }
  }
  Resources& have = room == Room::free ? node.free : node.total;
  for (const auto& [name, want] : each) {
    if (const auto found = have.find(name); found != have.end()) {
      found->second = std::max(0.0, found->second - want * count);
    }
  }
}

Trial try_placing(const Gang& gang, std::span<const NodeOffer> nodes, Room room) {
  Trial trial;
  for (const auto& group : gang.groups) {
    const auto capacity_of = capacities(group, trial.left(nodes), room);
    if (sum(capacity_of) < group.count) {
      trial.failed = &group;
      return trial;
    }
    const bool is_last = &group == &gang.groups.back();
    if (!is_last && trial.taken_from.empty()) trial.taken_from.assign(nodes.begin(), nodes.end());
    const auto taken = shares(group, gang.placement, capacity_of);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      trial.nodes.insert(trial.nodes.end(), taken[i], nodes[i].id);
      if (!is_last) take(trial.taken_from[i], room, group.each, taken[i]);
    }
  }
  return trial;
}

/// What the nodes lack for one group, and that the groups before it have their place.
std::string lacks(const Gang& gang, const Gang::Group& group, std::span<const NodeOffer> left, Room room) {
  std::string before;
  for (const auto& other : gang.groups) {
    if (&other == &group) break;
    before += (before.empty() ? "beside " : " and ") + protocol::counted(other.role, other.count);
  }
  return (before.empty() ? "" : before + ", ") + lacks(group, left, room);
}

}  // namespace

PlacementResult place(const Gang& gang, std::span<const NodeOffer> nodes) {
  PlacementResult result;
  auto trial = try_placing(gang, nodes, Room::free);
  if (trial.failed == nullptr) {
    result.nodes = std::move(trial.nodes);
  } else {
    result.possible = try_placing(gang, nodes, Room::total).failed == nullptr;
  }
  return result;
}

std::string explain(const Gang& gang, std::span<const NodeOffer> nodes) {
  std::string wanted;
  for (const auto& group : gang.groups) wanted += (wanted.empty() ? "" : " and ") + text_of(group);
  if (nodes.empty()) {
    return "no node has joined; " + wanted + " are needed: start nodes with weir node --head ADDRESS";
  }
  const auto idle = try_placing(gang, nodes, Room::total);
  if (idle.failed != nullptr) {
    return "the cluster has no room for " + wanted +
           " even when idle: " + lacks(gang, *idle.failed, idle.left(nodes), Room::total) +
           "; to fit: " + smallest_change(*idle.failed, idle.left(nodes));
  }
  const auto now = try_placing(gang, nodes, Room::free);
  if (now.failed == nullptr) return {};
  return "waits for room for " + wanted + ": " + lacks(gang, *now.failed, now.left(nodes), Room::free);
}

/// A node holds k workers as long as each asks for at most total / k (of GPUs, a whole number or a part of one). So the
/// amounts at which one more worker fits are
/// total, total / 2, total / 3, ... of each node, as often as its other resources allow, and the answer is the
/// `count`-th greatest of them all. They are taken one by one from a heap with one entry per node.
double greatest_fitting(const Gang::Group& group, std::span<const NodeOffer> nodes, const std::string& resource) {
  const auto offers = [&resource](const NodeOffer& node) {
    return has_devices(node, resource) || amount_of(node.total, resource) > 0;
  };
  if (std::none_of(nodes.begin(), nodes.end(), offers)) return 0;
  Resources others = group.each;
  others.erase(resource);
  const auto amount_for = [&resource](const NodeOffer& node, std::uint32_t workers) {
    if (!has_devices(node, resource)) return amount_of(node.total, resource) / workers;
    const auto whole =
        std::count_if(node.gpus_total.begin(), node.gpus_total.end(), [](double one) { return one == 1; });
    return greatest_gpu_amount(static_cast<std::size_t>(whole), workers);
  };
  struct Next {
    double amount;
    const NodeOffer* node;
    std::uint32_t share;  ///< workers on the node with that amount each
    std::uint32_t share_max;
    bool operator<(const Next& other) const { return amount < other.amount; }
  };
  std::priority_queue<Next> next;
  for (const auto& node : nodes) {
    const auto share_max = eligible(node, group) ? capacity(node, Room::total, others) : 0;
    const double all = amount_for(node, 1);
    if (all > 0 && share_max > 0) next.push({all, &node, 1, share_max});
  }
  for (std::uint32_t taken = 1; !next.empty(); ++taken) {
    Next greatest = next.top();
    if (taken == group.count) return greatest.amount;
    next.pop();
    if (greatest.share == greatest.share_max) continue;
    ++greatest.share;
    greatest.amount = amount_for(*greatest.node, greatest.share);
    next.push(greatest);
  }
  return 0;
}

std::string to_text(const Resources& resources) {
  std::string text;
  for (const auto& [name, amount] : resources)
    text += (text.empty() ? "" : " ") + name + "=" + amount_text(name, amount);
  return text.empty() ? "nothing" : text;
}

}  // namespace weir::cluster
