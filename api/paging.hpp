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

/// The reply with one page; `next` is "" on the last. A Link header (RFC 8288) has the next page's address. The members
/// of `more` are added beside the list.
Reply page_reply(const Request& request, const std::string& name, nlohmann::json items, const std::string& next,
                 nlohmann::json more);
Reply page_reply(const Request& request, const std::string& name, nlohmann::json items, const std::string& next);

/// One page of the events of a job, or of the cluster if `job` is empty.
net::awaitable<Reply> events_page(Services& services, const Request& request, std::string job);

/// Converts invalid_argument for a query string to malformed: invalid values are 400 in a query, but 422 in a document.
Error as_bad_request(const Error& error);

}  // namespace weir::api
