#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "collectives/fabric.hpp"

namespace weir::collectives {

/// Which group a rank belongs to. All ranks must agree on everything but `rank`.
struct Group {
  std::string job_id;
  std::uint64_t attempt = 0;  ///< of the job, a fencing number: connections of any other are refused
  std::string secret;         ///< the ranks prove to each other that they know it; never sent
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  std::uint32_t lanes = 3;
  Loss loss = Loss::ends_the_group;
  bool shared_memory = true;  ///< between ranks of one host; if not, TCP there as well
  /// Of this rank's connections together, in each direction, as if its line were slow; 0: no limit. Ranks may differ.
  double bytes_per_second = 0;
};

/// Where a rank listens.
struct Peer {
  std::string host;
  std::uint16_t port = 0;
};

/// The gradient port of one rank: bound first, so that its number can be told to the others, and joined when theirs are
/// known. Used once. `join` blocks and belongs on the communication thread; `abort` may come from any thread.
class Mesh {
 public:
  /// Binds `host` (an IP address) at a port the system chooses, or at `port` if it is not 0.
  /// Fails with: invalid_argument (host), io.
  static Result<std::unique_ptr<Mesh>> bind(const std::string& host, std::uint16_t port = 0);

  virtual ~Mesh() = default;

  virtual std::uint16_t port() const = 0;

  /// Connects every pair of ranks, once for each lane: this rank calls those below it and is called by those above. Two
  /// ranks of one host (of one network namespace) share memory instead, unless one of them does not want to or has
  /// none. `peers` holds all ranks in rank order. Each connection is accepted only when both sides have proved that
  /// they know the secret, of the same job and attempt; strangers on the port are turned away and do not disturb.
  /// Closes the port when done. Fails with: unauthenticated (a peer has another secret), conflict (a peer is of another
  /// job or attempt), invalid_argument (`peers`), deadline_exceeded (naming the ranks still missing), the cause given
  /// to `abort`.
  virtual Result<std::unique_ptr<Fabric>> join(const Group& group, const std::vector<Peer>& peers,
                                               std::chrono::milliseconds deadline) = 0;

  /// Makes a pending or later `join` fail with `cause`.
  virtual void abort(Error cause) = 0;
};

}  // namespace weir::collectives
