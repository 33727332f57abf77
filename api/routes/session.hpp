#pragma once

#include "api/router.hpp"

/// Login of browsers, and their sessions. openapi.json describes the input and output of each route.
namespace weir::api {

net::awaitable<Reply> login(Services& services, const Request& request);
net::awaitable<Reply> create_session(Services& services, const Request& request);
net::awaitable<Reply> delete_session(Services& services, const Request& request);
net::awaitable<Reply> create_login_link(Services& services, const Request& request);
net::awaitable<Reply> list_sessions(Services& services, const Request& request);
net::awaitable<Reply> revoke_session(Services& services, const Request& request);
net::awaitable<Reply> revoke_sessions(Services& services, const Request& request);

}  // namespace weir::api
