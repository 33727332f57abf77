#include <nlohmann/json.hpp>

#include "base/errc.hpp"
#include "cli/http_client.hpp"

namespace weir::cli {
namespace {

std::string text_of(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

Errc kind(unsigned status) {
  switch (status) {
    case 401:
    case 403: return Errc::unauthenticated;
    case 404: return Errc::not_found;
    case 409: return Errc::conflict;
    case 400:
    case 413:
    case 414:
    case 415:
    case 422: return Errc::invalid_argument;
    case 405:
    case 501: return Errc::unsupported;
    case 502: return Errc::peer_lost;  // a proxy does not reach the head
    case 408:
    case 504: return Errc::deadline_exceeded;
    case 429:
    case 503:
    case 507: return Errc::exhausted;
    default: return Errc::internal;
  }
}

/// One line per error that `told` does not name yet: where, what, and the nearest known name.
std::string faults(const nlohmann::json& problem, const std::string& told) {
  std::string text;
  const auto errors = problem.find("errors");
  if (errors == problem.end() || !errors->is_array()) return text;
  for (const nlohmann::json& fault : *errors) {
    if (!fault.is_object()) continue;
    const std::string pointer = text_of(fault, "pointer");
    const std::string detail = text_of(fault, "detail");
    if (told.find(pointer + ": " + detail) != std::string::npos) continue;
    text += "\n  " + (pointer.empty() ? "(the whole document)" : pointer) + ": " + detail;
    const std::string suggestion = text_of(fault, "suggestion");
    if (!suggestion.empty() && text.find("\"" + suggestion + "\"") == std::string::npos) {
      text += " (did you mean \"" + suggestion + "\"?)";
    }
  }
  return text;
}

}  // namespace

Error answer_error(const HttpAnswer& answer, const std::string& address) {
  const auto problem = nlohmann::json::parse(answer.body, nullptr, false);
  std::string what;
  if (problem.is_object()) {
    what = text_of(problem, "detail");
    if (what.empty()) what = text_of(problem, "title");
    what += faults(problem, what);
  }
  if (what.empty()) what = "the head at " + address + " answers with HTTP status " + std::to_string(answer.status);
  if (answer.status == 401) {
    what +=
        "\n  give the head's token with --token or WEIR_TOKEN, or its data directory with --data-dir (the token in a "
        "data directory is sent only to the head that wrote it, while that runs)";
  }
  if (answer.status >= 500 && problem.is_object()) {
    if (const std::string id = text_of(problem, "request_id"); !id.empty()) what += "\n  request " + id;
  }
  return {kind(answer.status), what};
}

}  // namespace weir::cli
