#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "cluster/host.hpp"
#include "cluster/node.hpp"
#include "cluster/signal.hpp"
#include "protocol/node.hpp"
#include "runtime/actor.hpp"
#include "runtime/actor_system.hpp"
#include "runtime/event.hpp"

namespace weir::cluster {

/// The actor "agent" of a node: starts, watches and ends its worker processes, and keeps the node in the cluster.
class AgentActor final : public runtime::Actor<protocol::NodeAgent> {
 public:
  /// `hopeless` is called with the error that makes the first join hopeless.
  AgentActor(NodeOptions options, runtime::ProcessSpawner& spawner, std::function<void(Error)> hopeless);

  void on_start() override;
  net::awaitable<void> on_stop() override;

  net::awaitable<Result<protocol::WorkerStarted>> start_worker(protocol::WorkerLaunch launch) override;
  net::awaitable<Result<void>> stop_worker(std::string worker_id, std::uint32_t grace_milliseconds) override;

 private:
  struct Worker {
    protocol::WorkerLaunch launch;
    std::uint32_t pid = 0;
    std::unique_ptr<runtime::Process> process;
    std::string unsent;              ///< output that the head has not acknowledged, bounded
    std::uint64_t acknowledged = 0;  ///< bytes of output before `unsent`
    std::string last_output;
    bool output_ended = false;
    Signal drained;  ///< the head has accepted output, or the output or the lease has ended
  };
  /// The node's lease. It outlives a broken link; it ends when the head revokes it or has answered no message for the
  /// time of the lease.
  struct Lease {
    runtime::PeerId head;
    runtime::ActorRef<protocol::Membership> membership;
    protocol::NodeWelcome welcome;
    std::string host;                     ///< address under which other nodes' workers reach this node's
    runtime::Clock::time_point answered;  ///< when the last message that the head answered was sent
    runtime::Clock::time_point end() const { return answered + std::chrono::milliseconds(welcome.lease_milliseconds); }
  };

  net::awaitable<void> stay_joined();
  net::awaitable<Result<void>> join();
  net::awaitable<Result<Lease>> ask_to_join(runtime::PeerId head);
  net::awaitable<Error> beat();
  net::awaitable<void> guard_lease();
  net::awaitable<void> read_output(std::shared_ptr<Worker> worker);
  net::awaitable<void> supervise(std::shared_ptr<Worker> worker);
  net::awaitable<void> tell_exit(std::shared_ptr<Worker> worker, runtime::ProcessExit exit);
  net::awaitable<void> forward_output();
  net::awaitable<void> kill_after(std::shared_ptr<Worker> worker, std::chrono::milliseconds grace);
  net::awaitable<void> end_workers(int signal, std::chrono::milliseconds patience);
  /// Ends the lease, and the workers with it.
  net::awaitable<void> leave(Error why);
  /// Keeps gpus_ up to date.
  net::awaitable<void> watch_gpus();
  net::awaitable<Result<void>> read_gpus();
  /// The GPUs as last read, without samples that are too old.
  std::vector<protocol::GpuState> gpus_now() const;
  /// That the driver finds these GPUs now. Fails with: not_found.
  net::awaitable<Result<void>> find_gpus(std::vector<protocol::GpuShare> booked);
  std::optional<Result<protocol::WorkerStarted>> already_started(const protocol::WorkerLaunch& launch) const;
  runtime::ProcessSpec spec_of(const protocol::WorkerLaunch& launch) const;
  std::string host_towards(runtime::PeerId head) const;

  const NodeOptions options_;
  runtime::ProcessSpawner& spawner_;
  std::function<void(Error)> hopeless_;
  host::LoadMeter load_;
  std::vector<protocol::GpuState> gpus_;  ///< those that the node offers
  runtime::Clock::time_point gpus_read_;  ///< when that began
  std::string gpu_trouble_;               ///< why they could not be read last; or empty
  std::optional<Lease> lease_;
  bool ever_joined_ = false;
  std::map<std::string, std::shared_ptr<Worker>> workers_;
  Signal news_;   ///< there is output to forward, or a head to forward it to
  Signal ended_;  ///< a worker is gone
};

}  // namespace weir::cluster
