#pragma once

#include "api/router.hpp"

/// The head itself: health, figures, documents. What each route takes and gives is in openapi.json.
namespace weir::api {

net::awaitable<Reply> healthz(Services& services, const Request& request);
net::awaitable<Reply> readyz(Services& services, const Request& request);
net::awaitable<Reply> prometheus(Services& services, const Request& request);
net::awaitable<Reply> openapi(Services& services, const Request& request);
net::awaitable<Reply> version(Services& services, const Request& request);
net::awaitable<Reply> catalog(Services& services, const Request& request);

}  // namespace weir::api
