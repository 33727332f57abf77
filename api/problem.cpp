#include "api/problem.hpp"

#include <nlohmann/json.hpp>

#include "base/errc.hpp"
#include "base/json_text.hpp"

namespace weir::api {
namespace {

using nlohmann::json;

unsigned status_of(const boost::system::error_code& code) {
  if (code.category() != weir_category()) return 500;
  switch (static_cast<Errc>(code.value())) {
    case Errc::malformed: return 400;
    case Errc::unauthenticated: return 401;
    case Errc::not_found: return 404;
    case Errc::conflict: return 409;
    case Errc::invalid_argument:
    case Errc::unsupported: return 422;
    case Errc::deadline_exceeded:
    case Errc::cancelled:
    case Errc::peer_lost:
    case Errc::mailbox_full:
    case Errc::io:
    case Errc::exhausted: return 503;
    case Errc::internal: return 500;
  }
  return 500;
}

}  // namespace

std::string_view reason_phrase(unsigned status) {
  switch (status) {
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 406: return "Not Acceptable";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 412: return "Precondition Failed";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 421: return "Misdirected Request";
    case 422: return "Unprocessable Content";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "Error";
  }
}

Reply problem(unsigned status, std::string detail, std::vector<FieldError> errors) {
  Reply reply;
  reply.status = status;
  reply.problem = Problem{std::move(detail), std::move(errors)};
  if (status == 429 || status == 503) reply.headers.emplace_back("Retry-After", status == 429 ? "60" : "1");
  if (status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"weir\"");
  return reply;
}

Reply problem(const Error& error) { return problem(status_of(error.code), error.message()); }

std::string problem_body(unsigned status, const Problem& problem, const Request& request) {
  json body = {
      {"type", "about:blank"}, {"title", reason_phrase(status)}, {"status", status}, {"request_id", request.id}};
  if (!problem.detail.empty()) body["detail"] = problem.detail;
  if (!request.target.path.empty()) body["instance"] = request.target.path;
  if (!problem.errors.empty()) {
    body["errors"] = json::array();
    for (const auto& error : problem.errors) {
      json& one = body["errors"].emplace_back(json{{"pointer", error.pointer}, {"detail", error.detail}});
      if (!error.suggestion.empty()) one["suggestion"] = error.suggestion;
    }
  }
  return to_text(body);
}

Reply json_reply(unsigned status, const json& document) {
  Reply reply;
  reply.status = status;
  reply.headers.emplace_back("Content-Type", "application/json");
  reply.body = to_text(document);
  return reply;
}

std::string to_text(const json& document) { return document.dump(-1, ' ', false, json::error_handler_t::replace); }

Result<json> parse_json(std::string_view text) {
  auto parsed = parse_json_text(text);
  if (!parsed) return Error{parsed.error().code, "the body " + parsed.error().context};
  return parsed;
}

}  // namespace weir::api
