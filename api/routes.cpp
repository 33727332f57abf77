#include "api/router.hpp"
#include "api/routes/cluster.hpp"
#include "api/routes/dashboard.hpp"
#include "api/routes/head.hpp"
#include "api/routes/jobs.hpp"
#include "api/routes/session.hpp"
#include "api/routes/stream.hpp"

namespace weir::api {

std::span<const Route> routes() {
  static constexpr bool json_body = true;
  static constexpr Route table[] = {
      {"GET", "/healthz", Guard::open, &healthz},
      {"GET", "/readyz", Guard::open, &readyz},
      {"GET", "/metrics", Guard::token, &prometheus},
      {"GET", "/openapi.json", Guard::token, &openapi},
      {"GET", "/login", Guard::open, &login},
      {"GET", "/api/v1/version", Guard::token, &version},
      {"POST", "/api/v1/session", Guard::bearer, &create_session},
      {"DELETE", "/api/v1/session", Guard::token, &delete_session},
      {"POST", "/api/v1/session/links", Guard::bearer, &create_login_link},
      {"GET", "/api/v1/sessions", Guard::token, &list_sessions},
      {"DELETE", "/api/v1/sessions", Guard::token, &revoke_sessions},
      {"DELETE", "/api/v1/sessions/{id}", Guard::token, &revoke_session},
      {"GET", "/api/v1/jobs", Guard::token, &list_jobs},
      {"POST", "/api/v1/jobs", Guard::token, &submit_job, json_body},
      {"POST", "/api/v1/jobs/validate", Guard::token, &validate_job, json_body},
      {"GET", "/api/v1/jobs/{id}", Guard::token, &show_job},
      {"DELETE", "/api/v1/jobs/{id}", Guard::token, &delete_job},
      {"POST", "/api/v1/jobs/{id}/stop", Guard::token, &stop_job},
      {"GET", "/api/v1/jobs/{id}/metrics", Guard::token, &job_metrics},
      {"GET", "/api/v1/jobs/{id}/traffic", Guard::token, &job_traffic},
      {"GET", "/api/v1/jobs/{id}/trace", Guard::token, &job_trace},
      {"GET", "/api/v1/jobs/{id}/logs", Guard::token, &job_logs},
      {"GET", "/api/v1/jobs/{id}/events", Guard::token, &job_events},
      {"GET", "/api/v1/jobs/{id}/checkpoints", Guard::token, &job_checkpoints},
      {"GET", "/api/v1/jobs/{id}/checkpoints/{step}", Guard::token, &download_checkpoint},
      {"GET", "/api/v1/stream", Guard::token, &stream},
      {"GET", "/api/v1/events", Guard::token, &list_events},
      {"GET", "/api/v1/nodes", Guard::token, &list_nodes},
      {"GET", "/api/v1/nodes/{id}", Guard::token, &show_node},
      {"DELETE", "/api/v1/nodes/{id}", Guard::token, &forget_node},
      {"POST", "/api/v1/nodes/{id}/drain", Guard::token, &drain_node},
      {"DELETE", "/api/v1/nodes/{id}/drain", Guard::token, &undrain_node},
      {"GET", "/api/v1/actors", Guard::token, &list_actors},
      {"GET", "/api/v1/actors/{name...}", Guard::token, &show_actor},
      {"GET", "/api/v1/catalog", Guard::token, &catalog},
      {"GET", "*", Guard::open, &dashboard_file},
  };
  return table;
}

}  // namespace weir::api
