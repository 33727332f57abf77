#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/head.hpp"

namespace weir::api {

struct Services;

/// What the jobs that have not ended add up to.
struct JobFigures {
  std::uint64_t pending = 0;
  std::uint64_t running = 0;
  double bytes_sent = 0;
  double bytes_dense = 0;
  double samples_per_second = 0;

  void add(const cluster::JobRecord& job);
};

/// The head's figures in the Prometheus text format 0.0.4. No label takes its values from a client.
std::string exposition(const Services& services, const cluster::Health& health,
                       const std::vector<cluster::NodeRecord>& nodes, const JobFigures& jobs);

}  // namespace weir::api
