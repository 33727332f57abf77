#pragma once

#include "api/router.hpp"

/// The head itself: health, metrics, documents. openapi.json describes the input and output of each route.
namespace weir::api {

net::awaitable<Reply> healthz(Services& services, const Request& request);
net::awaitable<Reply> readyz(Services& services, const Request& request);
net::awaitable<Reply> prometheus(Services& services, const Request& request);
net::awaitable<Reply> openapi(Services& services, const Request& request);
net::awaitable<Reply> version(Services& services, const Request& request);
net::awaitable<Reply> catalog(Services& services, const Request& request);

}  // namespace weir::api
