#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "api/http.hpp"

namespace weir::api {

struct Services;

/// A handler owns nothing: services and request must outlive it.
using Handler = net::awaitable<Reply> (*)(Services& services, const Request& request);

/// What a request must prove. A path that no route has needs a token too.
enum class Guard : std::uint8_t {
  token,   ///< knowledge of the token, also by a session
  bearer,  ///< the token itself: a session must not be able to give access to others
  open,    ///< nothing
};

struct Route {
  std::string_view method;
  /// Segments; "{x}" matches one, "{x...}" at the end one or more, "*" alone any path that is not below /api.
  std::string_view pattern;
  Guard guard = Guard::token;
  Handler handler = nullptr;
  bool json_body = false;  ///< needs a body of application/json
};

/// Every route of the head, in one table (routes.cpp).
std::span<const Route> routes();

struct Match {
  const Route* route = nullptr;  ///< null: no route, or not with this method
  bool known = false;            ///< some method is routed at this path
  Guard guard = Guard::token;
  std::string allow;  ///< the methods of this path, for the Allow header
  std::map<std::string, std::string, std::less<>> parameters;
};

/// Finds the route of a request. HEAD is routed like GET.
Match match(std::span<const Route> routes, std::string_view method, const Target& target);

/// Checks a request before its body is read and it is handled: Host, Origin, token, method, media type. Returns the
/// refusal or the route; sets the request's proof and parameters.
std::variant<const Route*, Reply> admit(Services& services, Request& request);

/// Adds what every answer has: request id, security headers, a problem's body, validators. Turns the reply into a 304
/// if the client has it already.
void finish(const Request& request, Reply& reply);

}  // namespace weir::api
