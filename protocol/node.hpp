#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "protocol/gpu.hpp"
#include "protocol/resources.hpp"
#include "runtime/actor_ref.hpp"
#include "runtime/methods.hpp"

namespace weir::protocol {

namespace net = boost::asio;

/// A node's description of itself when it joins.
struct NodeInfo {
  std::string name;  ///< unique in the cluster; the same name with a new incarnation replaces the old one
  std::string host;  ///< address under which workers of other nodes reach this node's workers
  std::uint64_t incarnation = 0;
  Resources resources;
  std::vector<Gpu> gpus;  ///< the devices behind the resource gpu; empty: it is an amount like any other
  std::map<std::string, std::string> labels;
  std::string version;
  std::uint32_t pid = 0;
  std::uint64_t lease_id = 0;        ///< of the lease that it still holds, if only the link broke; else 0
  std::vector<std::string> workers;  ///< ids of the workers under that lease, running or not yet reported as ended
};

struct NodeWelcome {
  std::string node_id;
  /// Fencing number: heartbeats and orders to start a worker carry it, and are refused if the number is old. It is the
  /// number asked for if the head keeps the workers of that lease; else a new one, and the workers of the earlier lease
  /// must have ended before the first heartbeat.
  std::uint64_t lease_id = 0;
  std::vector<std::string> workers;  ///< those of the announced ones that the head keeps; the others must be ended
  std::uint32_t heartbeat_milliseconds = 500;
  std::uint32_t missed_heartbeats_max = 4;
  /// How long the node may keep its workers after the last heartbeat that was answered, counted from when it was sent.
  /// The head does not give it up sooner, so that nothing runs twice, except when its link broke and was not replaced
  /// in time.
  std::uint32_t lease_milliseconds = 10'000;
};

struct NodeHeartbeat {
  std::string node_id;
  std::uint64_t lease_id = 0;
  double cpu_load = 0;  ///< cores in use, over the last interval
  std::uint64_t memory_used_bytes = 0;
  std::uint64_t memory_total_bytes = 0;
  std::uint64_t network_sent_bytes = 0;  ///< of the host's interfaces but loopback, since the node started
  std::uint64_t network_received_bytes = 0;
  std::vector<GpuState> gpus;  ///< of those that the node offers
};

/// The order to start one worker process in a slot of this node.
struct WorkerLaunch {
  std::string worker_id;  ///< chosen by the head, unique for ever
  std::string job_id;
  std::uint32_t rank = 0;
  std::uint64_t lease_id = 0;
  std::string secret;          ///< of the job; the worker proves to the head and its peers that it knows it
  Resources resources;         ///< granted to the worker; "cpu" sets the process's thread count
  std::vector<GpuShare> gpus;  ///< booked for it: the only ones that it sees
  std::map<std::string, std::string> environment;  ///< added to the node's own, which carries no token
};

struct WorkerStarted {
  std::uint32_t pid = 0;
};

/// How a worker process ended. Exactly one is sent for every WorkerStarted.
struct WorkerExit {
  std::string node_id;
  std::string worker_id;
  std::string job_id;
  std::uint32_t rank = 0;
  std::uint32_t pid = 0;
  std::optional<int> exit_code;  ///< if it exited
  std::optional<int> signal;     ///< if it was killed
  std::string last_output;       ///< the end of what it printed, at most 4 KiB
};

/// Output captured from worker processes, in order per worker.
struct OutputBatch {
  struct Chunk {
    std::string worker_id;
    std::string job_id;
    std::uint32_t rank = 0;
    std::uint64_t offset = 0;  ///< bytes of this worker's output before this chunk, by which repeats are recognized
    std::string text;
  };
  std::string node_id;
  std::vector<Chunk> chunks;
};

/// The interface of a node agent, which the head calls: one per node, the actor named "agent".
struct NodeAgent {
  static constexpr std::string_view type_name = "node_agent";
  virtual ~NodeAgent() = default;

  /// Starts the process, or returns the one that was started before: the call may be repeated.
  /// Fails with: conflict (another lease), not_found (a GPU booked for it is not there any more), io (the program
  /// cannot be started), exhausted.
  virtual net::awaitable<Result<WorkerStarted>> start_worker(WorkerLaunch launch) = 0;

  /// Sends SIGTERM, and SIGKILL after `grace_milliseconds`. Idempotent; unknown ids are not an error. The WorkerExit
  /// follows.
  virtual net::awaitable<Result<void>> stop_worker(std::string worker_id, std::uint32_t grace_milliseconds) = 0;

  static constexpr auto methods() {
    return runtime::methods<runtime::Method<&NodeAgent::start_worker, "start_worker">,
                            runtime::Method<&NodeAgent::stop_worker, "stop_worker">>();
  }
};

/// The head's interface that nodes call: the actor named "membership".
struct Membership {
  static constexpr std::string_view type_name = "membership";
  virtual ~Membership() = default;

  /// Asks whether this version may join, before anything is sent that another version writes otherwise. This method
  /// must never change. Fails with: unauthenticated, unsupported (other version).
  virtual net::awaitable<Result<void>> check_version(std::string node_name, std::string version) = 0;

  /// Joins the cluster, or continues under a lease whose link broke.
  /// Fails with: unauthenticated, conflict (a living node has that name), unsupported (other version),
  /// invalid_argument.
  virtual net::awaitable<Result<NodeWelcome>> join(NodeInfo info, runtime::ActorRef<NodeAgent> agent) = 0;

  /// Fails with: not_found or conflict if the node was declared lost meanwhile; it then kills its workers and joins
  /// anew.
  virtual net::awaitable<Result<void>> heartbeat(NodeHeartbeat beat) = 0;

  virtual net::awaitable<Result<void>> worker_exited(WorkerExit exit) = 0;

  /// Returns when the output is on disk. What cannot be written to the log of a worker, though the disk has room, is
  /// dropped. Fails with: exhausted (the disk is full, or an earlier message of this node is being written; the node
  /// repeats the output later), and the errors of the store.
  virtual net::awaitable<Result<void>> output(OutputBatch batch) = 0;

  static constexpr auto methods() {
    return runtime::methods<
        runtime::Method<&Membership::check_version, "check_version">, runtime::Method<&Membership::join, "join">,
        runtime::Method<&Membership::heartbeat, "heartbeat">,
        runtime::Method<&Membership::worker_exited, "worker_exited">, runtime::Method<&Membership::output, "output">>();
  }
};

}  // namespace weir::protocol
