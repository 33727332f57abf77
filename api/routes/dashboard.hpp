#pragma once

#include "api/router.hpp"

/// The dashboard's files, built into the program. openapi.json describes the input and output of each route.
namespace weir::api {

net::awaitable<Reply> dashboard_file(Services& services, const Request& request);

}  // namespace weir::api
