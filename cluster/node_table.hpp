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
#include "runtime/event.hpp"

namespace weir::cluster {

/// The nodes of the cluster as the head knows them, and the resources granted on each. Used on the head's strand.
class NodeTable {
 public:
  static constexpr std::uint32_t heartbeat_milliseconds = 500;
  static constexpr std::uint32_t missed_heartbeats_max = 4;
  /// How long a node may be silent before it is given up; it ends its workers by itself within the same time.
  static constexpr std::uint32_t lease_milliseconds = 10'000;
  /// A node whose link broke is given up sooner: a living node opens a new link at once, and when a link ends, its
  /// process has mostly ended.
  static constexpr std::uint32_t relink_milliseconds = heartbeat_milliseconds * missed_heartbeats_max;

  /// What a worker has on its node.
  struct Grant {
    std::string job_id;
    protocol::Resources resources;
    std::vector<protocol::GpuShare> gpus;
  };

  struct Node {
    NodeRecord record;
    bool drained_in_store = false;  ///< what is committed of record.drained
    bool confirmed = false;         ///< heartbeats under its lease arrive; nothing is placed on it while they do not
    bool awaited = false;           ///< it was there when a head ended, and its heartbeats do not arrive yet
    std::uint64_t incarnation = 0;
    std::uint64_t process = 0;  ///< of its agent
    runtime::ActorRef<protocol::NodeAgent> agent;
    runtime::Clock::time_point heard;                  ///< last sign of life
    std::optional<runtime::Clock::time_point> broken;  ///< since when it has no link
    std::string broken_by;                             ///< and why
    std::map<std::string, Grant> grants;               ///< by worker id
    /// Of a lost node, from the store, on somebody's request; set once it is committed or has failed.
    std::optional<runtime::Event> removal;
  };

  /// What a heartbeat has brought.
  struct Heard {
    bool offers_more = false;  ///< something could be placed now that could not before
    std::vector<protocol::Gpu> gpus_lost;
    std::vector<protocol::Gpu> gpus_back;
  };

  explicit NodeTable(Services& services) : services_(services) {}

  /// Adds the nodes of an earlier run of the head, given oldest first, which count as lost until they join again. Of
  /// those with one name the newest is kept. Returns the changes to commit.
  std::vector<Change> recover(std::vector<NodeRecord> nodes);

  /// Whether heartbeats of all nodes that were there when the head ended arrive again. Those that an earlier start of
  /// it has missed count for ten minutes, as long as a lost node is expected.
  bool are_back() const;

  /// Whether a node of this version may join. On any thread. Fails with: unsupported (another version).
  Result<void> check_version(const std::string& node_name, const std::string& version) const;

  /// Adds a node that joins, or joins again, and gives it a new lease. Its workers under an earlier lease must have
  /// been given up before.
  /// Fails with: conflict (a living node of that name), unsupported (another version), invalid_argument.
  Result<Node*> join(protocol::NodeInfo info, runtime::ActorRef<protocol::NodeAgent> agent);

  /// For a node that has a new link after its link broke, and continues under its lease. Returns those of its workers
  /// that are known here.
  std::vector<std::string> rejoin(Node& node, const protocol::NodeInfo& info);

  /// Records a heartbeat. Fails with: not_found, conflict (another lease).
  Result<Heard> heartbeat(const protocol::NodeHeartbeat& beat);

  void link_broke(Node& node, std::string why);

  /// The ids of the nodes that have been silent for too long, each with the reason to give it up. `late` is how long
  /// the head itself did not run since the last call; that time is not counted as anybody's silence.
  std::vector<std::pair<std::string, std::string>> silent(runtime::Clock::duration late);

  /// The node whose agent runs in that process; null if there is none.
  Node* by_process(std::uint64_t process);

  Node* find(const std::string& id_or_name);
  /// Returns the ids of nodes that are forgotten for that, because there are too many lost ones.
  std::vector<std::string> mark_lost(Node& node, const std::string& reason);
  void set_drained(Node& node, bool drained);
  /// Takes the node out, if it is there and lost.
  void forget(const std::string& id);

  /// Returns the GPUs booked for the worker: none where gpu is no resource made of devices.
  std::vector<protocol::GpuShare> grant(const std::string& node_id, const std::string& worker_id,
                                        const std::string& job_id, const protocol::Resources& resources);
  void release(const std::string& node_id, const std::string& worker_id);

  /// Nothing is placed on a node which has just failed to find one of its GPUs, or holds another lease, until its next
  /// heartbeat says how it is.
  void doubt(const std::string& node_id);

  /// The offers of the nodes whose heartbeats arrive, sorted by name. Updated with every change of a node.
  const std::vector<NodeOffer>& offers() const { return offers_; }
  /// Incremented whenever the idle cluster has come to offer more, so that a job that did not fit it may fit now.
  std::uint64_t growth() const { return growth_; }
  std::vector<NodeRecord> records() const;  ///< living ones by name, then lost ones
  /// What runs on a node, by worker id; nothing if the node is not known.
  const std::map<std::string, Grant>& grants_on(const std::string& node_id) const;

 private:
  /// Adds, updates or removes the node's offer after a change of the node.
  void refresh_offer(Node& node);
  std::vector<std::string> forget_nodes();
  /// The node is silent: how its GPUs are now is not known.
  static void forget_samples(Node& node);

  Services& services_;
  std::map<std::string, Node> nodes_;  ///< by id
  std::vector<NodeOffer> offers_;      ///< by name
  std::uint64_t growth_ = 0;
};

}  // namespace weir::cluster
