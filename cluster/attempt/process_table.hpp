#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cluster/node_table.hpp"
#include "cluster/records.hpp"
#include "cluster/services.hpp"
#include "protocol/job_spec.hpp"
#include "protocol/node.hpp"
#include "protocol/training.hpp"
#include "runtime/actor_ref.hpp"

namespace weir::cluster {

/// A process of an attempt: a worker or a server.
struct Process {
  WorkerRecord record;
  std::uint32_t number = 0;  ///< among those of its role
  protocol::Resources resources;
  runtime::ActorRef<protocol::NodeAgent> agent;
  runtime::ActorRef<protocol::Worker> actor;  ///< empty until the process is up
  runtime::ActorRef<protocol::Training> trainer;
  std::optional<protocol::RankEndpoint> endpoint;
  std::optional<protocol::TrainingEnd> end;
  std::optional<runtime::Clock::time_point> link_broken;  ///< since when
  std::uint32_t links_lost = 0;                           ///< how many links to it have broken
  bool started = false;                                   ///< training.start answered
  bool gone = false;                                      ///< no process, its resources are released

  /// It has said that its training is over, and that nothing went wrong.
  bool ended_well() const { return end && end->outcome != protocol::Outcome::failed; }
};

/// "worker 2 on node b (process 123)", "server 0 on node a", "the state server on node a"
std::string describe(const Process& process);

/// The processes of an attempt, by rank, each with its place on a node. Lives on the head's strand.
class ProcessTable {
 public:
  /// `node_ids`: the node of each rank of the groups. The resources of each process are granted here; `on_room` is
  /// called whenever some are released.
  ProcessTable(Services& services, NodeTable& nodes, const std::string& job_id, const protocol::RoleGroups& groups,
               const std::vector<std::string>& node_ids, std::function<void()> on_room);

  std::uint32_t size() const { return static_cast<std::uint32_t>(processes_.size()); }
  Process& operator[](std::uint32_t rank) { return processes_[rank]; }
  const Process& operator[](std::uint32_t rank) const { return processes_[rank]; }
  auto begin() { return processes_.begin(); }
  auto end() { return processes_.end(); }
  auto begin() const { return processes_.begin(); }
  auto end() const { return processes_.end(); }

  template <class Predicate>
  bool every(Predicate predicate) const {
    return std::all_of(processes_.begin(), processes_.end(), predicate);
  }
  /// Those for which it holds, as in "worker 0 on node a, worker 2 on node b".
  std::string names_of(const std::function<bool(const Process&)>& predicate) const;

  /// Null if there is none.
  Process* find(const std::string& worker_id);
  const Process* find(const std::string& worker_id) const;

  /// The node of a process; null if it is not known any more.
  const NodeTable::Node* node_of(const Process& process) const { return nodes_.find(process.record.node_id); }

  /// The process announces itself. Fails with: conflict (another process has done so before).
  Result<void> come_up(Process& process, runtime::ActorRef<protocol::Worker> actor);
  /// There is no process any more. Releases its resources.
  void let_go(Process& process);

  /// Its node has not found a GPU booked for it, or holds another lease.
  void doubt_node(const Process& process) { nodes_.doubt(process.record.node_id); }

 private:
  void place(std::uint32_t rank, std::uint32_t number, const protocol::RoleGroup& group, const std::string& job_id,
             const NodeTable::Node* node);

  Services& services_;
  NodeTable& nodes_;
  const std::function<void()> on_room_;
  std::vector<Process> processes_;                        ///< by rank
  std::unordered_map<std::string, std::uint32_t> ranks_;  ///< by worker id
};

}  // namespace weir::cluster
