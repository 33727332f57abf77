#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "api/http.hpp"
#include "base/result.hpp"

/// Lists are always paged: {"<name>": [...], "next": cursor or null}.
namespace weir::api {

struct Services;

/// `limit` of the query, 1..1000, 100 if not given. Fails with: malformed.
Result<std::uint32_t> page_limit(const Target& target);

/// One page; `next` is "" on the last. Also gives the next page's address in a Link header (RFC 8288). What `more` has
/// stands beside the list.
Reply page_reply(const Request& request, const std::string& name, nlohmann::json items, const std::string& next,
                 nlohmann::json more);
Reply page_reply(const Request& request, const std::string& name, nlohmann::json items, const std::string& next);

/// One page of the events of a job, or of the cluster if `job` is empty.
net::awaitable<Reply> events_page(Services& services, const Request& request, std::string job);

/// What is invalid in a query string is a bad request (400), whereas in a document it is 422.
Error as_bad_request(const Error& error);

}  // namespace weir::api
