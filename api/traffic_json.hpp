#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "cluster/traffic.hpp"

namespace weir::api {

/// The answer of GET /api/v1/jobs/{id}/traffic: what the processes of a job have exchanged, each and all together.
nlohmann::json traffic_json(const std::string& job_id, std::span<const cluster::WorkerTraffic> workers);

}  // namespace weir::api
