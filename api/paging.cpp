#include "api/paging.hpp"

#include <nlohmann/json.hpp>

#include "api/problem.hpp"
#include "api/services.hpp"
#include "base/errc.hpp"

namespace weir::api {

using nlohmann::json;

Result<std::uint32_t> page_limit(const Target& target) {
  const auto limit = target.integer("limit", 100, 1, 1000);
  if (!limit) return limit.error();
  return static_cast<std::uint32_t>(*limit);
}

Reply page_reply(const Request& request, const std::string& name, json items, const std::string& next) {
  return page_reply(request, name, std::move(items), next, json::object());
}

Reply page_reply(const Request& request, const std::string& name, json items, const std::string& next, json more) {
  more[name] = std::move(items);
  more["next"] = next.empty() ? json() : json(next);
  Reply reply = json_reply(200, more);
  if (next.empty()) return reply;
  std::string address = request.target.path + "?";
  for (const auto& [key, value] : request.target.query)
    if (key != "cursor") address += percent_encode(key) + "=" + percent_encode(value) + "&";
  return std::move(reply).with("Link", "<" + address + "cursor=" + percent_encode(next) + ">; rel=\"next\"");
}

net::awaitable<Reply> events_page(Services& services, const Request& request, std::string job) {
  const auto limit = page_limit(request.target);
  if (!limit) co_return problem(limit.error());
  const auto cursor = request.target.integer("cursor", 0, 0, INT64_MAX);
  if (!cursor) co_return problem(400, "cursor must be the `next` of another page");
  const auto order = request.target.find("order").value_or("oldest");
  if (order != "oldest" && order != "newest") co_return problem(400, "order must be oldest or newest");
  cluster::EventQuery query;
  query.job_id = std::move(job);
  query.cursor = static_cast<std::uint64_t>(*cursor);
  query.limit = *limit;
  query.newest_first = order == "newest";
  const auto page = co_await services.head.events(std::move(query));
  if (!page) co_return problem(as_bad_request(page.error()));
  json events = json::array();
  for (const auto& event : page->events) events.push_back(cluster::to_json(event));
  co_return page_reply(request, "events", std::move(events), page->next == 0 ? "" : std::to_string(page->next));
}

Error as_bad_request(const Error& error) {
  if (error.code == Errc::invalid_argument) return {Errc::malformed, error.context};
  return error;
}

}  // namespace weir::api
