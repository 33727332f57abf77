#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cluster/scheduler.hpp"
#include "cluster/services.hpp"
#include "protocol/node.hpp"

namespace weir::cluster {

/// The nodes of the cluster as the head knows them, and what is granted on each. On the head's strand.
class NodeTable {
 public:
  static constexpr std::uint32_t heartbeat_milliseconds = 500;
  static constexpr std::uint32_t missed_heartbeats_max = 4;

  struct Node {
    NodeRecord record;
    bool confirmed = false;  ///< it has its welcome: a heartbeat of this epoch came. Nothing is placed before that
    std::uint64_t incarnation = 0;
    std::uint64_t process = 0;  ///< of its agent
    runtime::ActorRef<protocol::NodeAgent> agent;
    runtime::Clock::time_point heard;                   ///< last sign of life
    std::map<std::string, protocol::Resources> grants;  ///< by worker id
  };

  explicit NodeTable(Services& services) : services_(services) {}

  /// Nodes of an earlier run of the head: they count as lost until they join again.
  std::vector<Change> recover(std::vector<NodeRecord> nodes);

  /// A node joins, or joins again. What ran on it under an older epoch must have been given up before.
  /// Fails with: conflict (a living node of that name), unsupported (another version), invalid_argument.
  Result<Node*> join(protocol::NodeInfo info, runtime::ActorRef<protocol::NodeAgent> agent);

  /// True if it is the first of its epoch. Fails with: not_found, conflict (an old epoch).
  Result<bool> heartbeat(const protocol::NodeHeartbeat& beat);

  /// Nodes that have been silent for too long, and what to say of it.
  std::vector<std::pair<std::string, std::string>> silent() const;

  /// The node of an agent in that process.
  Node* by_process(std::uint64_t process);

  Node* find(const std::string& id_or_name);
  void mark_lost(Node& node, const std::string& reason);
  void mark_draining(Node& node) { node.record.state = NodeState::draining; }

  void grant(const std::string& node_id, const std::string& worker_id, const protocol::Resources& resources);
  void release(const std::string& node_id, const std::string& worker_id);

  std::vector<NodeOffer> offers() const;
  std::vector<NodeRecord> records() const;  ///< living ones by name, then lost ones
  std::uint32_t alive() const;

 private:
  Services& services_;
  std::map<std::string, Node> nodes_;  ///< by id
};

}  // namespace weir::cluster
