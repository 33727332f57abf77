#include "api/router.hpp"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "api/message.hpp"
#include "api/problem.hpp"
#include "api/services.hpp"

namespace weir::api {
namespace {

/// Allows scripts and styles only from this server, no frames, and nothing from elsewhere: the dashboard works offline.
constexpr std::string_view content_security_policy =
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'";

std::string_view next_segment(std::string_view& pattern) {
  pattern.remove_prefix(1);
  const auto segment = pattern.substr(0, pattern.find('/'));
  pattern.remove_prefix(segment.size());
  return segment;
}

bool matches(std::string_view pattern, const Target& target,
             std::map<std::string, std::string, std::less<>>& parameters) {
  if (pattern == "*") return target.segments.empty() || target.segments.front() != "api";
  std::size_t at = 0;
  while (pattern.size() > 1) {
    const auto segment = next_segment(pattern);
    if (at == target.segments.size()) return false;
    if (!segment.starts_with('{')) {
      if (segment != target.segments[at++]) return false;
    } else if (!segment.ends_with("...}")) {
      parameters.emplace(segment.substr(1, segment.size() - 2), target.segments[at++]);
    } else {
      std::string rest = target.segments[at++];
      while (at < target.segments.size()) rest += "/" + target.segments[at++];
      parameters.emplace(segment.substr(1, segment.size() - 5), std::move(rest));
    }
  }
  return at == target.segments.size();
}

bool is_json(std::string_view content_type) {
  const auto type = content_type.substr(0, content_type.find(';'));
  const auto end = type.find_last_not_of(" \t");
  static constexpr std::string_view json = "application/json";
  return end + 1 == json.size() && std::equal(json.begin(), json.end(), type.begin(),
                                              [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b + 32 : b); });
}

std::string entity_tag(std::string_view bytes) {
  const auto hash = XXH3_128bits(bytes.data(), bytes.size());
  std::array<char, 40> text{};
  const int size =
      std::snprintf(text.data(), text.size(), "\"%016llx%016llx\"", static_cast<unsigned long long>(hash.high64),
                    static_cast<unsigned long long>(hash.low64));
  return {text.data(), static_cast<std::size_t>(size)};
}

/// True if the If-None-Match list contains `tag`, by weak comparison as its definition requires.
bool names_tag(std::string_view list, std::string_view tag) {
  if (list == "*") return true;
  while (!list.empty()) {
    const auto end = list.find(',');
    auto item = list.substr(0, end);
    item.remove_prefix(std::min(item.find_first_not_of(' '), item.size()));
    item = item.substr(0, item.find_last_not_of(' ') + 1);
    if (item.starts_with("W/")) item.remove_prefix(2);
    if (item == tag) return true;
    if (end == std::string_view::npos) break;
    list.remove_prefix(end + 1);
  }
  return false;
}

bool has(const Headers& headers, std::string_view name) {
  return std::any_of(headers.begin(), headers.end(), [&](const auto& header) { return header.first == name; });
}

/// Adds a validator to text answers to GET, and turns the answer into a 304 if the client's copy has the same one.
void revalidate(const Request& request, Reply& reply) {
  if (reply.status != 200 || (request.method != "GET" && request.method != "HEAD")) return;
  std::string tag;
  for (const auto& [name, value] : reply.headers)
    if (name == "ETag") tag = value;
  if (tag.empty()) {
    const auto* text = std::get_if<std::string>(&reply.body);
    if (text == nullptr) return;
    tag = entity_tag(*text);
    reply.headers.emplace_back("ETag", tag);
  }
  const auto known = request.header("if-none-match");
  if (!known || !names_tag(*known, tag)) return;
  reply.status = 304;
  reply.body = std::string();
}

}  // namespace

Match match(std::span<const Route> routes, std::string_view method, const Target& target) {
  Match found;
  std::string_view pattern;
  for (const auto& route : routes) {
    std::map<std::string, std::string, std::less<>> parameters;
    // The first pattern that matches counts; "*" is the last one.
    if (found.known ? route.pattern != pattern : !matches(route.pattern, target, parameters)) continue;
    if (!found.known) {
      found.known = true;
      found.guard = route.guard;
      found.parameters = std::move(parameters);
      pattern = route.pattern;
    }
    found.allow += std::string(route.method) + ", ";
    if (route.method == "GET") found.allow += "HEAD, ";
    if (route.method == method || (route.method == "GET" && method == "HEAD")) {
      found.route = &route;
      found.guard = route.guard;
    }
  }
  if (found.known) found.allow += "OPTIONS";
  return found;
}

std::variant<const Route*, Reply> admit(Services& services, Request& request) {
  if (auto refusal = services.access.check_origin(request)) return std::move(*refusal);
  auto found = match(routes(), request.method, request.target);
  request.proof = services.access.prove(request);
  if (found.guard != Guard::open && request.proof == Proof::none)
    if (auto refusal = services.access.authenticate(request)) return std::move(*refusal);
  if (found.route != nullptr && found.guard == Guard::bearer && request.proof != Proof::token)
    return problem(403, "a session cannot make another; send the head's token as \"Authorization: Bearer TOKEN\"");
  if (!found.known) return problem(404, "there is nothing at " + request.target.path);
  if (request.method == "OPTIONS") {
    Reply reply;
    reply.status = 204;
    return std::move(reply).with("Allow", found.allow);
  }
  if (found.route == nullptr)
    return problem(405, request.target.path + " does not take " + request.method).with("Allow", found.allow);
  if (!request.safe() && (request.header("if-match") || request.header("if-unmodified-since")))
    return problem(412, "conditions are not checked here; ask without them");
  if (found.route->json_body) {
    if (!is_json(request.header("content-type").value_or("")))
      return problem(415, "send the body as \"Content-Type: application/json\"");
    if (request.header("content-encoding")) return problem(415, "send the body without a Content-Encoding");
  }
  request.parameters = std::move(found.parameters);
  return found.route;
}

void finish(const Request& request, Reply& reply) {
  if (reply.problem) {
    reply.headers.emplace_back("Content-Type", "application/problem+json");
    reply.body = problem_body(reply.status, *reply.problem, request);
  }
  revalidate(request, reply);
  reply.headers.emplace_back("Date", http_date(std::chrono::system_clock::now()));
  reply.headers.emplace_back("X-Request-Id", request.id);
  reply.headers.emplace_back("Content-Security-Policy", content_security_policy);
  reply.headers.emplace_back("X-Content-Type-Options", "nosniff");
  reply.headers.emplace_back("Referrer-Policy", "no-referrer");
  reply.headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
  reply.headers.emplace_back("X-Frame-Options", "DENY");
  // Answers are private to the caller, and the next one may differ.
  if (!has(reply.headers, "Cache-Control")) reply.headers.emplace_back("Cache-Control", "private, no-cache");
}

}  // namespace weir::api
