#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "api/target.hpp"
#include "base/result.hpp"

/// Requests and replies as values that do not depend on the HTTP library, so that routes and rules can be read and
/// tested without it.
namespace weir::api {

namespace net = boost::asio;

/// Header fields in order of arrival; names are lower case.
using Headers = std::vector<std::pair<std::string, std::string>>;

/// The first value of a field, or nothing. `name` is lower case.
std::optional<std::string_view> find(const Headers& headers, std::string_view name);

/// How a request has proven that it knows the token.
enum class Proof : std::uint8_t {
  none,
  session,  ///< a session that was begun with the token
  token,    ///< the token itself
};

struct Request {
  std::string id;      ///< X-Request-Id, the client's or ours
  std::string method;  ///< as sent: methods are case-sensitive
  Target target;
  Headers headers;
  std::string body;
  std::string remote;                                          ///< the client's address, without the port
  std::string local_address;                                   ///< the address it connected to, without the port
  std::map<std::string, std::string, std::less<>> parameters;  ///< values of the route's {name} segments

  std::optional<std::string_view> header(std::string_view name) const { return find(headers, name); }
  /// The value of a parameter, which must be in the route's pattern.
  const std::string& parameter(std::string_view name) const;
  Proof proof = Proof::none;  ///< set when the request is admitted
  bool safe() const { return method == "GET" || method == "HEAD" || method == "OPTIONS"; }
};

/// A body that is produced while it is sent: a file, or a stream of events. Used by one connection.
class BodySource {
 public:
  virtual ~BodySource() = default;
  /// The next piece; an empty one ends the body. It may take any time. An error cuts the connection, so that the client
  /// sees that the body is not complete.
  virtual net::awaitable<Result<std::string>> next() = 0;
  /// Called when the server stops. An endless body ends with the next piece; others continue to their end.
  virtual void finish() {}
  /// Called when the client has gone. The body ends with the next piece, which may be an error.
  virtual void abandon() { finish(); }
};

/// One error in a request's body, see problem().
struct FieldError {
  std::string pointer;  ///< JSON pointer into the body
  std::string detail;
  std::string suggestion = {};  ///< the nearest known name, or ""
};

struct Problem {
  std::string detail;
  std::vector<FieldError> errors;
};

/// An answer, before finish() adds what every answer has (request id, security headers, validators).
struct Reply {
  /// Bytes that live as long as the program: embedded files.
  struct Static {
    std::string_view bytes;
  };
  struct Streamed {
    std::unique_ptr<BodySource> source;
    std::optional<std::uint64_t> size;  ///< bytes, if known beforehand; otherwise the body is sent in chunks
  };

  unsigned status = 200;
  Headers headers;
  std::variant<std::string, Static, Streamed> body;
  std::optional<Problem> problem;  ///< for 4xx and 5xx: becomes the body

  Reply with(std::string name, std::string value) && {
    headers.emplace_back(std::move(name), std::move(value));
    return std::move(*this);
  }
};

}  // namespace weir::api
