#pragma once

#include "base/result.hpp"
#include "collectives/fabric.hpp"
#include "training/exchange/planner.hpp"

namespace weir::training {

/// Measures the links between the ranks, which all do so together: messages around a ring, small ones for the latency
/// and growing ones for the rate, until one takes 50 ms. The numbers are those of the slowest rank, the same on all.
/// Takes up to about half a second. `by_hosts`: only the leaders of hosts measure, between each other. Fails with what
/// the group fails with.
Result<LinkCosts> measure_links(collectives::Fabric& fabric, bool by_hosts);

}  // namespace weir::training
