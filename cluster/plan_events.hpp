#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "protocol/traffic.hpp"

namespace weir::cluster {

/// Decides which plans of the exchange become events of their job. Workers that choose their topology try several plans
/// for a few steps each, again and again; all that would bury the job's other events. What is told is the first plan of
/// an attempt, and what is followed once all candidates have been tried, if it is not what was told last.
class PlanEvents {
 public:
  /// After so many events of an attempt, changes of the plan are in the job's traffic only.
  static constexpr std::size_t events_max = 100;

  /// `plans`: the attempt's next ones. Returns the messages of the events, oldest first.
  std::vector<std::string> add(std::span<const protocol::ExchangePlan> plans);

 private:
  std::size_t count_ = 0;
  std::string routes_;     ///< told last
  bool on_trial_ = false;  ///< so was that
};

}  // namespace weir::cluster
