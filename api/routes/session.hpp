#pragma once

#include "api/router.hpp"

/// How a browser comes to be logged in. What each route takes and gives is in openapi.json.
namespace weir::api {

net::awaitable<Reply> login(Services& services, const Request& request);
net::awaitable<Reply> create_session(Services& services, const Request& request);
net::awaitable<Reply> delete_session(Services& services, const Request& request);
net::awaitable<Reply> create_login_link(Services& services, const Request& request);
net::awaitable<Reply> list_sessions(Services& services, const Request& request);
net::awaitable<Reply> revoke_session(Services& services, const Request& request);
net::awaitable<Reply> revoke_sessions(Services& services, const Request& request);

}  // namespace weir::api
