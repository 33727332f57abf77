#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "protocol/node.hpp"
#include "runtime/actor_system.hpp"
#include "runtime/process.hpp"

namespace weir::cluster {

namespace net = boost::asio;

struct NodeOptions {
  std::string head = "127.0.0.1:6380";  ///< the head's control port
  std::string secret;                   ///< the content of the head's node_secret file
  std::string name;                     ///< unique in the cluster; empty: the host's name
  std::string host;                     ///< where other nodes' workers reach this one's; empty: found out at each join
  protocol::Resources resources;        ///< what is not named here is found out: cpu (cores), memory (bytes)
  std::map<std::string, std::string> labels;
  std::string version;            ///< must be the head's
  std::string worker_program;     ///< path of weir-worker
  std::uint64_t incarnation = 0;  ///< 0: drawn at random
};

/// A node: keeps in touch with the head for ever and runs worker processes for it. Owned by main. No worker outlives
/// it: not its stop(), not its death.
class Node {
 public:
  /// Executor, clock, transport and spawner outlive the node.
  Node(NodeOptions options, net::any_io_executor executor, runtime::Clock& clock, runtime::Transport& transport,
       runtime::ProcessSpawner& spawner);
  ~Node();

  /// Joins the head, and joins it again whenever the link is lost; workers live through that unless it takes longer
  /// than the lease that the head gives. Returns after stop(), or with what makes the first join hopeless:
  /// unauthenticated (wrong secret), unsupported (another version), conflict (the name is taken).
  net::awaitable<Result<void>> run();

  /// Ends the workers and leaves.
  net::awaitable<void> stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weir::cluster
