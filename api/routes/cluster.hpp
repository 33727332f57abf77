#pragma once

#include "api/router.hpp"

/// Nodes, actors and the cluster's events. openapi.json describes the input and output of each route.
namespace weir::api {

net::awaitable<Reply> list_events(Services& services, const Request& request);
net::awaitable<Reply> list_nodes(Services& services, const Request& request);
net::awaitable<Reply> show_node(Services& services, const Request& request);
net::awaitable<Reply> forget_node(Services& services, const Request& request);
net::awaitable<Reply> drain_node(Services& services, const Request& request);
net::awaitable<Reply> undrain_node(Services& services, const Request& request);
net::awaitable<Reply> list_actors(Services& services, const Request& request);
net::awaitable<Reply> show_actor(Services& services, const Request& request);

}  // namespace weir::api
