#pragma once

#include "api/router.hpp"

/// Server-sent events. What each route takes and gives is in openapi.json.
namespace weir::api {

net::awaitable<Reply> stream(Services& services, const Request& request);

}  // namespace weir::api
