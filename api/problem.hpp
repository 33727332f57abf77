#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "api/http.hpp"
#include "base/result.hpp"

/// How answers are made: JSON, and RFC 9457 problems for whatever is not one.
namespace weir::api {

std::string_view reason_phrase(unsigned status);

Reply problem(unsigned status, std::string detail, std::vector<FieldError> errors = {});

/// The status that an error stands for: not_found 404, conflict 409, malformed 400, invalid_argument 422, ...; what the
/// client cannot know about (io, internal) is 500 or 503.
Reply problem(const Error& error);

/// The body of a problem, with what only the request knows.
std::string problem_body(unsigned status, const Problem& problem, const Request& request);

Reply json_reply(unsigned status, const nlohmann::json& document);

/// Text of a JSON document; text in it that is not UTF-8 is replaced by U+FFFD rather than refused.
std::string to_text(const nlohmann::json& document);

/// Parses a body. Fails with: malformed (not JSON, a key that occurs twice, nested deeper than 64).
Result<nlohmann::json> parse_json(std::string_view text);

}  // namespace weir::api
