#include "api/routes/head.hpp"

#include <nlohmann/json.hpp>

#include "api/exposition.hpp"
#include "api/problem.hpp"
#include "api/services.hpp"

namespace weir::api {
namespace {

Reply text_reply(std::string text, std::string type = "text/plain; charset=utf-8") {
  Reply reply;
  reply.body = std::move(text);
  return std::move(reply).with("Content-Type", std::move(type));
}

}  // namespace

net::awaitable<Reply> healthz(Services&, const Request&) { co_return text_reply("ok\n"); }

net::awaitable<Reply> readyz(Services& services, const Request&) {
  const auto health = co_await services.head.health();
  if (health && health->store_writable && health->accepting) co_return text_reply("ready\n");
  co_return problem(503, "not ready");
}

net::awaitable<Reply> prometheus(Services& services, const Request&) {
  const auto nodes = co_await services.head.nodes();
  if (!nodes) co_return problem(nodes.error());
  const auto health = co_await services.head.health();
  if (!health) co_return problem(health.error());
  const auto jobs = co_await services.head.job_totals();
  if (!jobs) co_return problem(jobs.error());
  co_return text_reply(exposition(services, *health, *nodes, *jobs), "text/plain; version=0.0.4; charset=utf-8");
}

net::awaitable<Reply> openapi(Services& services, const Request&) {
  co_return text_reply(services.openapi, "application/json");
}

net::awaitable<Reply> version(Services& services, const Request&) {
  co_return json_reply(200, {{"version", services.version},
                             {"api", "v1"},
                             {"started_at", cluster::to_iso8601(services.started_at)},
                             {"insecure", services.insecure}});
}

net::awaitable<Reply> catalog(Services& services, const Request&) {
  co_return json_reply(200, services.head.catalog());
}

}  // namespace weir::api
