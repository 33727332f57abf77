#pragma once

#include "api/router.hpp"

/// Server-sent events. openapi.json describes the input and output of each route.
namespace weir::api {

net::awaitable<Reply> stream(Services& services, const Request& request);

}  // namespace weir::api
