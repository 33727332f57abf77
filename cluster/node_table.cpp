#include "cluster/node_table.hpp"

#include <algorithm>
#include <cmath>
#include <ranges>
#include <set>
#include <string_view>
#include <utility>

#include "base/errc.hpp"

namespace weir::cluster {
namespace {

constexpr std::size_t name_length_max = 128;
constexpr std::ptrdiff_t lost_nodes_max = 200;   // remembered for people to see
constexpr std::chrono::minutes back_within{10};  // a lost node is expected for so long
constexpr std::size_t gpus_max = 256;            // of a node
constexpr std::size_t gpu_text_max = 128;        // characters of a UUID or a name

/// Of a node that was there when the head ended, until it joins again.
constexpr std::string_view missed_since_restart = "the head was restarted; the node has not joined since";

Result<void> check_gpus(const protocol::NodeInfo& info) {
  if (info.gpus.size() > gpus_max) {
    return Error{Errc::invalid_argument, "node " + info.name + " has more than 256 GPUs"};
  }
  std::set<std::string> uuids;
  for (const auto& gpu : info.gpus) {
    const bool good = !gpu.uuid.empty() && gpu.uuid.size() <= gpu_text_max && gpu.name.size() <= gpu_text_max;
    if (!good || !uuids.insert(gpu.uuid).second) {
      return Error{Errc::invalid_argument, "GPU " + std::to_string(gpu.index) + " of node " + info.name +
                                               " has no UUID of its own, or one or a name that is too long"};
    }
  }
  return {};
}

/// A sample as a node sent it, without numbers that are none.
protocol::GpuSample checked(protocol::GpuSample sample) {
  for (auto* value : {&sample.utilization, &sample.power_watts, &sample.temperature_celsius}) {
    if (*value && !std::isfinite(**value)) value->reset();
  }
  return sample;
}

/// What is not booked of each GPU of a node; nothing of those that are lost.
GpuRoom free_gpus(const NodeTable::Node& node) {
  const auto& gpus = node.record.gpus;
  GpuRoom room(gpus.size(), 1);
  for (const auto& [id, grant] : node.grants) {
    for (const auto& [uuid, share] : grant.gpus) {
      const auto at = std::ranges::find(gpus, uuid, [](const GpuRecord& one) { return one.gpu.uuid; });
      if (at != gpus.end()) room[static_cast<std::size_t>(at - gpus.begin())] -= share;
    }
  }
  for (std::size_t i = 0; i < room.size(); ++i) room[i] = gpus[i].lost ? 0 : std::max(0.0, room[i]);
  return room;
}

bool is_lost(const NodeTable::Node& node) { return node.record.state == NodeState::lost; }

}  // namespace

std::vector<Change> NodeTable::recover(std::vector<NodeRecord> nodes) {
  std::vector<Change> changes;
  std::set<std::string> names;
  for (auto& record : nodes | std::views::reverse) {
    if (!names.insert(record.name).second) {
      changes.push_back(change::RemoveNode{record.id});
      continue;
    }
    const bool was_there = record.state != NodeState::lost;
    // A head that was started and ended again before the node could join has left that it was there before.
    const bool was_missed = !was_there && record.reason == missed_since_restart &&
                            record.lost_at.value_or(Time::min()) >= services_.now() - back_within;
    if (was_there) {
      record.state = NodeState::lost;
      record.lost_at = services_.now();
      record.reason = missed_since_restart;
      changes.push_back(change::PutNode{record});
      changes.push_back(change::Publish{StreamKind::node, {}, to_text(to_json(record))});
    }
    Node node;
    node.record = std::move(record);
    node.drained_in_store = node.record.drained;
    node.awaited = was_there || was_missed;
    nodes_.emplace(node.record.id, std::move(node));
  }
  for (const auto& id : forget_nodes()) changes.push_back(change::RemoveNode{id});
  return changes;
}

bool NodeTable::are_back() const {
  return std::ranges::none_of(nodes_, [](const auto& entry) { return entry.second.awaited; });
}

Result<void> NodeTable::check_version(const std::string& node_name, const std::string& version) const {
  if (version == services_.options.version) return {};
  return Error{Errc::unsupported, "node " + node_name + " runs weir " + version + ", the head " +
                                      services_.options.version + "; install the same version on both"};
}

Result<NodeTable::Node*> NodeTable::join(protocol::NodeInfo info, runtime::ActorRef<protocol::NodeAgent> agent) {
  if (info.name.empty() || info.name.size() > name_length_max) {
    return Error{Errc::invalid_argument, "a node's name has 1 to 128 characters"};
  }
  if (auto same = check_version(info.name, info.version); !same) return same.error();
  for (const auto& [name, amount] : info.resources) {
    if (!std::isfinite(amount) || amount < 0) {
      return Error{Errc::invalid_argument,
                   "resource " + name + " of node " + info.name + " is not a number of 0 or more"};
    }
  }
  if (auto good = check_gpus(info); !good) return good.error();
  Node* known = nullptr;
  for (auto& [id, node] : nodes_) {
    if (node.record.name != info.name) continue;
    if (node.record.state != NodeState::lost && node.incarnation != info.incarnation) {
      return Error{Errc::conflict, "a node named " + info.name + " (process " + std::to_string(node.record.pid) +
                                       " on " + node.record.host + ") is in the cluster; choose another --name"};
    }
    known = &node;
  }
  if (known == nullptr) {
    const auto id = services_.new_id();
    known = &nodes_[id];
    known->record.id = id;
  }
  NodeRecord& record = known->record;
  record.name = info.name;
  record.host = info.host;
  record.state = record.drained ? NodeState::draining : NodeState::alive;
  record.lease_id = services_.next_fence();
  record.resources = std::move(info.resources);
  record.used.clear();
  record.gpus.clear();
  for (auto& gpu : info.gpus) record.gpus.push_back({std::move(gpu), false, {}});
  record.labels = std::move(info.labels);
  record.version = info.version;
  record.pid = info.pid;
  record.joined_at = record.heartbeat_at = services_.now();
  record.lost_at.reset();
  record.reason.clear();
  known->confirmed = false;
  known->incarnation = info.incarnation;
  known->process = agent.address().process;
  known->agent = std::move(agent);
  known->heard = services_.clock.now();
  known->broken.reset();
  known->grants.clear();
  refresh_offer(*known);
  return known;
}

std::vector<std::string> NodeTable::rejoin(Node& node, const protocol::NodeInfo& info) {
  node.record.host = info.host;
  node.record.heartbeat_at = services_.now();
  node.heard = services_.clock.now();
  node.broken.reset();
  std::vector<std::string> kept;
  for (const auto& worker : info.workers) {
    if (node.grants.contains(worker)) kept.push_back(worker);
  }
  return kept;
}

Result<NodeTable::Heard> NodeTable::heartbeat(const protocol::NodeHeartbeat& beat) {
  const auto found = nodes_.find(beat.node_id);
  if (found == nodes_.end()) return Error{Errc::not_found, "no node " + beat.node_id};
  Node& node = found->second;
  if (node.record.state == NodeState::lost || node.record.lease_id != beat.lease_id) {
    return Error{Errc::conflict, "node " + node.record.name + " was given up: " + node.record.reason};
  }
  node.heard = services_.clock.now();
  node.record.heartbeat_at = services_.now();
  node.record.cpu_load = std::isfinite(beat.cpu_load) ? beat.cpu_load : 0;
  node.record.memory_used_bytes = beat.memory_used_bytes;
  node.record.memory_total_bytes = beat.memory_total_bytes;
  node.record.network_sent_bytes = beat.network_sent_bytes;
  node.record.network_received_bytes = beat.network_received_bytes;
  Heard heard;
  for (const auto& state : beat.gpus) {
    const auto known =
        std::ranges::find(node.record.gpus, state.uuid, [](const GpuRecord& one) { return one.gpu.uuid; });
    if (known == node.record.gpus.end()) continue;
    known->sample = checked(state.sample);
    if (std::exchange(known->lost, state.lost) == state.lost) continue;
    (state.lost ? heard.gpus_lost : heard.gpus_back).push_back(known->gpu);
  }
  node.awaited = false;
  const bool was_confirmed = std::exchange(node.confirmed, true);
  if (was_confirmed && heard.gpus_lost.empty() && heard.gpus_back.empty()) return heard;
  refresh_offer(node);
  heard.offers_more = !was_confirmed || !heard.gpus_back.empty();
  return heard;
}

void NodeTable::forget_samples(Node& node) {
  for (auto& gpu : node.record.gpus) gpu.sample = {};
}

void NodeTable::link_broke(Node& node, std::string why) {
  node.broken = services_.clock.now();
  node.broken_by = std::move(why);
  node.confirmed = false;
  forget_samples(node);
  refresh_offer(node);
}

std::vector<std::pair<std::string, std::string>> NodeTable::silent(runtime::Clock::duration late) {
  using std::chrono::milliseconds;
  const auto now = services_.clock.now();
  std::vector<std::pair<std::string, std::string>> found;
  for (auto& [id, node] : nodes_) {
    if (node.record.state == NodeState::lost) continue;
    node.heard = std::min(now, node.heard + late);
    if (node.broken) node.broken = std::min(now, *node.broken + late);
    if (node.broken && now - *node.broken > milliseconds(relink_milliseconds)) {
      found.emplace_back(id, "the connection broke: " + node.broken_by);
    } else if (now - node.heard > milliseconds(lease_milliseconds)) {
      found.emplace_back(id, "no heartbeat for " + std::to_string(lease_milliseconds) + " ms");
    } else if (now - node.heard > milliseconds(heartbeat_milliseconds) * missed_heartbeats_max) {
      node.confirmed = false;
      forget_samples(node);
      refresh_offer(node);
    }
  }
  return found;
}

NodeTable::Node* NodeTable::by_process(std::uint64_t process) {
  for (auto& [id, node] : nodes_) {
    if (node.record.state != NodeState::lost && node.process == process) return &node;
  }
  return nullptr;
}

NodeTable::Node* NodeTable::find(const std::string& id_or_name) {
  if (const auto found = nodes_.find(id_or_name); found != nodes_.end()) return &found->second;
  for (auto& [id, node] : nodes_) {
    if (node.record.name == id_or_name) return &node;
  }
  return nullptr;
}

void NodeTable::set_drained(Node& node, bool drained) {
  node.record.drained = drained;
  if (node.record.state != NodeState::lost) node.record.state = drained ? NodeState::draining : NodeState::alive;
  refresh_offer(node);
}

std::vector<std::string> NodeTable::mark_lost(Node& node, const std::string& reason) {
  node.record.state = NodeState::lost;
  node.record.lost_at = services_.now();
  node.record.reason = reason;
  node.record.used.clear();
  node.grants.clear();
  node.broken.reset();
  node.agent = {};
  node.process = 0;
  forget_samples(node);
  refresh_offer(node);
  return forget_nodes();
}

void NodeTable::forget(const std::string& id) {
  const auto found = nodes_.find(id);
  if (found != nodes_.end() && is_lost(found->second)) nodes_.erase(found);  // nothing is offered of it
}

/// The ids sort by time: the oldest go. Those that have not been lost for long may be on their way back: all are, after
/// a restart of the head. Those that are drained stay drained until somebody takes that back, or forgets them.
std::vector<std::string> NodeTable::forget_nodes() {
  const auto is_given_up = [since = services_.now() - back_within](const auto& entry) {
    const NodeRecord& record = entry.second.record;
    return is_lost(entry.second) && !record.drained && record.lost_at.value_or(Time::min()) < since;
  };
  auto given_up = std::ranges::count_if(nodes_, is_given_up);
  std::vector<std::string> forgotten;
  std::erase_if(nodes_, [&](const auto& entry) {
    if (given_up <= lost_nodes_max || !is_given_up(entry)) return false;
    forgotten.push_back(entry.second.record.id);
    --given_up;
    return true;
  });
  return forgotten;
}

std::vector<protocol::GpuShare> NodeTable::grant(const std::string& node_id, const std::string& worker_id,
                                                 const std::string& job_id, const protocol::Resources& resources) {
  const auto found = nodes_.find(node_id);
  if (found == nodes_.end()) return {};
  Node& node = found->second;
  Grant grant{job_id, resources, {}};
  if (const auto amount = resources.find("gpu"); amount != resources.end() && !node.record.gpus.empty()) {
    GpuRoom room = free_gpus(node);
    for (const auto position : book_gpus(room, amount->second).value_or(std::vector<std::size_t>())) {
      grant.gpus.push_back({node.record.gpus[position].gpu.uuid, std::min(amount->second, 1.0)});
    }
  }
  for (const auto& [name, amount] : resources) node.record.used[name] += amount;
  const auto booked = (node.grants[worker_id] = std::move(grant)).gpus;
  refresh_offer(node);
  return booked;
}

void NodeTable::doubt(const std::string& node_id) {
  const auto found = nodes_.find(node_id);
  if (found == nodes_.end()) return;
  found->second.confirmed = false;
  refresh_offer(found->second);
}

void NodeTable::release(const std::string& node_id, const std::string& worker_id) {
  const auto found = nodes_.find(node_id);
  if (found == nodes_.end() || found->second.grants.erase(worker_id) == 0) return;
  auto& used = found->second.record.used;
  used.clear();  // summed anew, so that rounding errors do not accumulate
  for (const auto& [id, grant] : found->second.grants) {
    for (const auto& [name, amount] : grant.resources) used[name] += amount;
  }
  refresh_offer(found->second);
}

void NodeTable::refresh_offer(Node& node) {
  NodeRecord& record = node.record;
  if (!record.gpus.empty()) {
    record.resources["gpu"] = static_cast<double>(std::ranges::count(record.gpus, false, &GpuRecord::lost));
  }
  const auto at = std::lower_bound(offers_.begin(), offers_.end(), record.name,
                                   [](const NodeOffer& offer, const std::string& name) { return offer.name < name; });
  const bool offered = at != offers_.end() && at->name == record.name;
  if (!node.confirmed || record.state == NodeState::lost) {
    if (offered) offers_.erase(at);
    return;
  }
  NodeOffer offer{record.id,    record.name, record.resources, record.resources, record.state == NodeState::alive,
                  record.labels};
  for (const auto& [name, amount] : record.used) offer.free[name] = std::max(0.0, offer.free[name] - amount);
  const GpuRoom free = free_gpus(node);
  for (std::size_t i = 0; i < free.size(); ++i) {
    const GpuRecord& gpu = record.gpus[i];
    if (gpu.lost) {
      offer.gpus_lost.push_back(gpu.gpu.index);
      continue;
    }
    offer.gpus.push_back(gpu.gpu.index);
    offer.gpus_total.push_back(1);
    offer.gpus_free.push_back(free[i]);
  }
  if (!offered) {
    offers_.insert(at, std::move(offer));
    ++growth_;
    return;
  }
  if ((offer.open && !at->open) || offer.gpus.size() > at->gpus.size()) ++growth_;
  *at = std::move(offer);
}

std::vector<NodeRecord> NodeTable::records() const {
  std::vector<NodeRecord> result;
  for (const auto& [id, node] : nodes_) result.push_back(node.record);
  std::stable_sort(result.begin(), result.end(), [](const NodeRecord& a, const NodeRecord& b) {
    const bool a_lost = a.state == NodeState::lost;
    const bool b_lost = b.state == NodeState::lost;
    return a_lost != b_lost ? b_lost : a.name < b.name;
  });
  return result;
}

const std::map<std::string, NodeTable::Grant>& NodeTable::grants_on(const std::string& node_id) const {
  static const std::map<std::string, Grant> none;
  const auto found = nodes_.find(node_id);
  return found == nodes_.end() ? none : found->second.grants;
}

}  // namespace weir::cluster
