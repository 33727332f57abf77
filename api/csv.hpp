#pragma once

#include <string>
#include <vector>

#include "cluster/records.hpp"

namespace weir::api {

/// One line per point, "job,name,worker,x,min,max,last", numbers so that they read back to the same value; the worker
/// of a series of the whole job is empty.
std::string metrics_csv(const std::string& job, const std::vector<cluster::MetricSeries>& series);

}  // namespace weir::api
