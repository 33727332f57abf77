#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/fabric.hpp"
#include "collectives/loop.hpp"
#include "collectives/packing.hpp"

namespace weir::collectives {

/// How long messages take in a simulated network. The defaults take no time at all.
struct NetworkModel {
  double latency_seconds = 0;
  double jitter_seconds = 0;  ///< each frame takes up to so much longer: frames of different links overtake each other
  double bytes_per_second = std::numeric_limits<double>::infinity();  ///< of each rank's port, in each direction
  double combine_seconds_per_byte = 0;                                ///< of pieces for which Receiver::computes()
  PackingCosts packing = {};  ///< ports carry numbers packed where that saves time, in the usual share of their bytes
  std::uint64_t window_bytes = 1 << 20;  ///< of one link: sent and not yet received; then the sender has to wait
  std::uint64_t seed = 0;                ///< of the jitter
  std::uint32_t ranks_per_host = 1;      ///< the first so many ranks share a host, then the next, ...
  std::uint32_t hosts_in_turn = 0;       ///< if not 0: one rank after the other is of the next of so many hosts
  bool carries_data = true;              ///< if not, only lengths travel: no message has to have any memory
};

/// A group whose ranks are all in this process, with a clock of its own. Time passes only when nothing else can go on,
/// neither here nor on another thread that works for this loop (Loop::Hold), and then jumps to the next frame's
/// arrival: the same seed gives the same order of events, without waiting. One loop runs all ranks. Frames leave a rank
/// one after the other, those of more urgent lanes first, and arrive at a rank one after the other.
class InProcessNetwork : public Loop {
 public:
  static std::unique_ptr<InProcessNetwork> make(std::uint32_t ranks, std::uint32_t lanes = 1,
                                                const NetworkModel& model = {}, Loss loss = Loss::ends_the_group);

  /// Rank `rank`'s end of a lane; once for each. It must not outlive the network.
  virtual std::unique_ptr<Communicator> communicator(std::uint32_t rank, std::uint32_t lane = 0) = 0;

  /// Seconds since the beginning.
  virtual double now() const = 0;

  /// `co_await` returns when the clock shows `time`.
  virtual Task<> until(double time) = 0;

  /// Keeps `rank` busy for so long with something other than the network: `co_await` returns afterwards. What the rank
  /// computes on, in combining pieces too, happens one after the other.
  virtual Task<> compute(std::uint32_t rank, double seconds) = 0;
};

/// The ends of a group whose ranks are threads of this process, in rank order.
std::vector<std::unique_ptr<Fabric>> in_process_group(std::uint32_t ranks, std::uint32_t lanes = 3,
                                                      const NetworkModel& model = {});

}  // namespace weir::collectives
