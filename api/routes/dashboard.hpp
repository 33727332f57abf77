#pragma once

#include "api/router.hpp"

/// The dashboard's files, built into the program. What each route takes and gives is in openapi.json.
namespace weir::api {

net::awaitable<Reply> dashboard_file(Services& services, const Request& request);

}  // namespace weir::api
