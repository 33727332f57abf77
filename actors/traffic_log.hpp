#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "collectives/fabric.hpp"
#include "protocol/traffic.hpp"
#include "training/exchange/traffic_account.hpp"

namespace weir::actors {

/// Decides which steps' traffic a rank reports, and keeps it until it is sent. A step is sampled if the number of those
/// added so far is a multiple of the power of two at which one or two seconds lie between samples. Ranks that exchange
/// with each other in every step are equally fast, so they sample the same steps without agreeing on them. Filled by
/// the compute thread; take() is for any thread.
class TrafficLog {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// The step with this number has ended, after `seconds` or, of a server, after a time that is not told, at `now`.
  /// `account`: of phases and tensors in this group, if there is one.
  void add(std::uint64_t step, double seconds, const collectives::Fabric& group,
           const training::TrafficAccount* account, Time now = std::chrono::steady_clock::now());

  /// Gradients travel in another way from now on.
  void planned(protocol::ExchangePlan plan);

  /// No step follows: what the last one moved is reported too.
  void finish(const collectives::Fabric& group, const training::TrafficAccount* account);

  /// Removes and returns the newest report, if there is one that was not taken yet; the caller must deliver it.
  std::optional<protocol::TrafficReport> take();

 private:
  void sample(const collectives::Fabric& group, const training::TrafficAccount* account);

  // Used by the compute thread.
  std::optional<Time> begin_;
  std::uint64_t steps_ = 0;  ///< added so far
  std::uint64_t step_ = 0;   ///< number and length of the last one
  double seconds_ = 0;
  double slowest_seconds_ = 0;

  std::mutex mutex_;
  std::optional<protocol::TrafficReport> report_;
  std::optional<protocol::StepTimeline> slowest_;  ///< not reported yet
  std::vector<protocol::ExchangePlan> plans_;      ///< not reported yet
};

}  // namespace weir::actors
