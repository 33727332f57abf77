#include "api/routes/cluster.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/paging.hpp"
#include "api/problem.hpp"
#include "api/services.hpp"

namespace weir::api {

using nlohmann::json;

net::awaitable<Reply> list_events(Services& services, const Request& request) {
  co_return co_await events_page(services, request, "");
}

net::awaitable<Reply> list_nodes(Services& services, const Request& request) {
  const auto limit = page_limit(request.target);
  if (!limit) co_return problem(limit.error());
  const auto nodes = co_await services.head.nodes();
  if (!nodes) co_return problem(nodes.error());
  auto first = nodes->begin();
  if (const auto cursor = request.target.find("cursor")) {
    // The cursor is the id of the last node of the page before.
    first = std::find_if(nodes->begin(), nodes->end(), [&](const auto& node) { return node.id == *cursor; });
    if (first == nodes->end()) co_return problem(400, "cursor must be the `next` of another page");
    ++first;
  }
  json page = json::array();
  for (; first != nodes->end() && page.size() < *limit; ++first) page.push_back(cluster::to_json(*first));
  const std::string next = first == nodes->end() ? "" : std::prev(first)->id;
  co_return page_reply(request, "nodes", std::move(page), next);
}

net::awaitable<Reply> show_node(Services& services, const Request& request) {
  const auto node = co_await services.head.node(request.parameter("id"));
  if (!node) co_return problem(node.error());
  co_return json_reply(200, cluster::to_json(*node));
}

net::awaitable<Reply> drain_node(Services& services, const Request& request) {
  const auto node = co_await services.head.drain(request.parameter("id"));
  if (!node) co_return problem(node.error());
  co_return json_reply(200, cluster::to_json(*node));
}

net::awaitable<Reply> undrain_node(Services& services, const Request& request) {
  const auto node = co_await services.head.undrain(request.parameter("id"));
  if (!node) co_return problem(node.error());
  co_return json_reply(200, cluster::to_json(*node));
}

net::awaitable<Reply> list_actors(Services& services, const Request& request) {
  const auto limit = page_limit(request.target);
  if (!limit) co_return problem(limit.error());
  std::string filter(request.target.find("q").value_or(""));
  std::string cursor(request.target.find("cursor").value_or(""));
  const auto page = co_await services.head.actors(std::move(filter), *limit, std::move(cursor));
  if (!page) co_return problem(as_bad_request(page.error()));
  json actors = json::array();
  for (const auto& actor : page->actors) actors.push_back(cluster::to_json(actor));
  co_return page_reply(request, "actors", std::move(actors), page->next);
}

net::awaitable<Reply> show_actor(Services& services, const Request& request) {
  const auto& name = request.parameter("name");
  std::string cursor;
  do {
    const auto page = co_await services.head.actors(name, 1000, cursor);
    if (!page) co_return problem(page.error());
    for (const auto& actor : page->actors)
      if (actor.name == name) co_return json_reply(200, cluster::to_json(actor));
    cursor = page->next;
  } while (!cursor.empty());
  co_return problem(404, "there is no actor \"" + name + "\"");
}

}  // namespace weir::api
