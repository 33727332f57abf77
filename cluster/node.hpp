#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cluster/gpus.hpp"
#include "protocol/node.hpp"
#include "runtime/actor_system.hpp"
#include "runtime/process.hpp"

namespace weir::cluster {

namespace net = boost::asio;

/// The GPUs of a node, as offer_gpus() finds them. A worker sees those that it has booked, and no other.
struct NodeGpus {
  std::vector<protocol::Gpu> offered;
  std::shared_ptr<GpuProbe> probe;  ///< reads those offered; null if there are none
};

struct NodeOptions {
  std::string head = "127.0.0.1:6380";  ///< the head's control port
  std::string secret;                   ///< the content of the head's node_secret file
  std::string name;                     ///< unique in the cluster; empty: the host's name
  std::string host;                     ///< address for workers of other nodes; empty: determined at each join
  protocol::Resources resources;        ///< cpu (cores) and memory (bytes) are determined if not named here
  std::map<std::string, std::string> labels;
  NodeGpus gpus;
  std::string version;            ///< must be the head's
  std::string worker_program;     ///< path of weir-worker
  std::string modules;            ///< directory of TorchScript modules that jobs may name; empty: none
  std::uint64_t incarnation = 0;  ///< 0: drawn at random
  net::any_io_executor blocking;  ///< for the GPU probe, which blocks; empty: the node makes a thread for it
};

/// A node: stays joined to the head and runs worker processes for it. Owned by main. No worker outlives the node,
/// neither after stop() nor if the node dies.
class Node {
 public:
  /// Executor, clock, transport and spawner must outlive the node.
  Node(NodeOptions options, net::any_io_executor executor, runtime::Clock& clock, runtime::Transport& transport,
       runtime::ProcessSpawner& spawner);
  ~Node();

  /// Joins the head, and joins it again whenever the link is lost; workers survive that unless it takes longer than the
  /// lease that the head grants. Returns after stop(), or with the error that makes the first join hopeless:
  /// unauthenticated (wrong secret), unsupported (another version), conflict (the name is taken), invalid_argument.
  net::awaitable<Result<void>> run();

  /// Ends the workers and leaves.
  net::awaitable<void> stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weir::cluster
