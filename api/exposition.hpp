#pragma once

#include <string>
#include <vector>

#include "cluster/head.hpp"

namespace weir::api {

struct Services;

/// The head's metrics in the Prometheus text format 0.0.4. No label has values chosen by clients.
std::string exposition(const Services& services, const cluster::Health& health,
                       const std::vector<cluster::NodeRecord>& nodes, const cluster::JobTotals& jobs);

}  // namespace weir::api
