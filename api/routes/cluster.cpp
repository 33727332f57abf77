#include "api/routes/cluster.hpp"

#include <algorithm>
#include <compare>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "api/paging.hpp"
#include "api/problem.hpp"
#include "api/services.hpp"

namespace weir::api {

using nlohmann::json;

namespace {

/// What Head::nodes() sorts by. A cursor is the place of the last node of the page before, not that node, which may be
/// somewhere else by now, or forgotten.
struct Place {
  bool lost = false;
  std::string name;
  std::string id;

  auto operator<=>(const Place&) const = default;

  std::string text() const { return (lost ? "lost:" : "here:") + id + ":" + name; }
  static std::optional<Place> parse(std::string_view text) {
    const auto colon = text.find(':', 5);
    const bool lost = text.starts_with("lost:");
    if ((!lost && !text.starts_with("here:")) || colon == std::string_view::npos) return std::nullopt;
    return Place{lost, std::string(text.substr(colon + 1)), std::string(text.substr(5, colon - 5))};
  }
};

Place place_of(const cluster::NodeRecord& node) { return {node.state == cluster::NodeState::lost, node.name, node.id}; }

}  // namespace

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
    const auto before = Place::parse(*cursor);
    if (!before) co_return problem(400, "cursor must be the `next` of another page");
    first = std::ranges::find_if(*nodes, [&before](const auto& node) { return place_of(node) > *before; });
  }
  json page = json::array();
  for (; first != nodes->end() && page.size() < *limit; ++first) page.push_back(cluster::to_json(*first));
  const std::string next = first == nodes->end() ? "" : place_of(*std::prev(first)).text();
  co_return page_reply(request, "nodes", std::move(page), next);
}

net::awaitable<Reply> show_node(Services& services, const Request& request) {
  const auto node = co_await services.head.node(request.parameter("id"));
  if (!node) co_return problem(node.error());
  co_return json_reply(200, cluster::to_json(*node));
}

net::awaitable<Reply> forget_node(Services& services, const Request& request) {
  const auto forgotten = co_await services.head.forget(request.parameter("id"));
  if (!forgotten) co_return problem(forgotten.error());
  Reply reply;
  reply.status = 204;
  co_return reply;
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
