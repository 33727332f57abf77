#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "cluster/traffic.hpp"

namespace weir::api {

/// A step of a trace: a recent one, or the slowest one so far.
enum class TraceStep { sampled, slowest };

/// A step of each worker in the Chrome trace event format, which chrome://tracing and Perfetto read: a process for
/// each worker, with a thread for its encoder, one for its decoder and one for each lane. Viewers drop an event that
/// overlaps another one of its thread, so what a lane carries at the same time is on further threads, and waits for a
/// lane are asynchronous events. Numbers of processes and threads begin with 1, because Perfetto takes 0 for the
/// kernel's idle ones. Names come first, then the events by time.
nlohmann::json chrome_trace(const std::string& job_id, std::span<const cluster::WorkerTraffic> workers, TraceStep step);

}  // namespace weir::api
