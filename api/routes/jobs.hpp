#pragma once

#include "api/router.hpp"

/// Jobs and their metrics, traffic, logs, events and checkpoints. openapi.json describes the input and output of each
/// route.
namespace weir::api {

net::awaitable<Reply> list_jobs(Services& services, const Request& request);
net::awaitable<Reply> submit_job(Services& services, const Request& request);
net::awaitable<Reply> validate_job(Services& services, const Request& request);
net::awaitable<Reply> show_job(Services& services, const Request& request);
net::awaitable<Reply> delete_job(Services& services, const Request& request);
net::awaitable<Reply> stop_job(Services& services, const Request& request);
net::awaitable<Reply> job_metrics(Services& services, const Request& request);
net::awaitable<Reply> job_traffic(Services& services, const Request& request);
net::awaitable<Reply> job_trace(Services& services, const Request& request);
net::awaitable<Reply> job_logs(Services& services, const Request& request);
net::awaitable<Reply> job_events(Services& services, const Request& request);
net::awaitable<Reply> job_checkpoints(Services& services, const Request& request);
net::awaitable<Reply> download_checkpoint(Services& services, const Request& request);

}  // namespace weir::api
