#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "cluster/traffic.hpp"

namespace weir::api {

/// The answer of GET /api/v1/jobs/{id}/traffic: what the workers of a job have exchanged, each and all together.
nlohmann::json traffic_json(const std::string& job_id, std::span<const cluster::WorkerTraffic> workers);

/// A step of a trace: a recent one, or the slowest one so far.
enum class TraceStep { sampled, slowest };

/// A step of each worker in the Chrome trace event format, which chrome://tracing and Perfetto read: a process for
/// each worker, with a thread for its codec and one for each lane. Waits for a lane overlap, so they are asynchronous
/// events.
nlohmann::json chrome_trace(const std::string& job_id, std::span<const cluster::WorkerTraffic> workers, TraceStep step);

}  // namespace weir::api
