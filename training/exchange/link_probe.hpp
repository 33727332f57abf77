#pragma once

#include "base/result.hpp"
#include "collectives/fabric.hpp"
#include "training/exchange/planner.hpp"

namespace weir::training {

/// The links of a group, as Situation has them.
struct GroupLinks {
  LinkCosts links;
  SharedHosts hosts;
};

/// Measures the links between the ranks, which all do so together: messages around a ring, small ones for the latency
/// and growing ones for the rate, until one takes 50 ms. Where some ranks share a host but not all, first those of each
/// host measure between each other, then the leaders of the hosts. The numbers are those of the slowest rank, the same
/// on all. Takes up to about half a second, or twice as much. Fails with what the group fails with.
Result<GroupLinks> measure_links(collectives::Fabric& fabric);

}  // namespace weir::training
