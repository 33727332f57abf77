#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "api/http.hpp"
#include "base/result.hpp"

/// Makes replies: JSON, and RFC 9457 problems for errors.
namespace weir::api {

std::string_view reason_phrase(unsigned status);

Reply problem(unsigned status, std::string detail, std::vector<FieldError> errors = {});

/// A problem with the status for an error: not_found 404, conflict 409, malformed 400, invalid_argument 422, ...;
/// errors that are not the client's (io, internal) are 500 or 503.
Reply problem(const Error& error);

/// The body of a problem, completed with details of the request.
std::string problem_body(unsigned status, const Problem& problem, const Request& request);

Reply json_reply(unsigned status, const nlohmann::json& document);

/// Text of a JSON document; invalid UTF-8 in it is replaced by U+FFFD instead of refused.
std::string to_text(const nlohmann::json& document);

/// Parses a body. Fails with: malformed (not JSON, a key that occurs twice, nested deeper than 64).
Result<nlohmann::json> parse_json(std::string_view text);

}  // namespace weir::api
