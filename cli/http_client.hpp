#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "cli/server_sent_events.hpp"

namespace weir::cli {

enum class Verb { get, post, delete_ };

/// A request, without the header fields that HttpClient adds to each.
struct HttpCall {
  Verb verb = Verb::get;
  std::string target = "/";
  std::optional<std::string> body = std::nullopt;  ///< JSON text
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::chrono::milliseconds deadline = std::chrono::seconds(30);  ///< for the answer, once there is a connection
  /// Set for a request that may be made twice: called with the reason why the first answer did not come, before the
  /// request is repeated.
  std::function<void(const Error&)> again = nullptr;
  bool* sent = nullptr;  ///< if there is no answer, set to whether the head may have received the request
};

struct HttpAnswer {
  unsigned status = 0;
  std::string content_type;
  std::string body;
};

/// A small HTTP/1.1 client for the head's API. Blocking; each request has a connection of its own.
/// While a request is made, SIGINT ends it instead of the process.
class HttpClient {
 public:
  /// `address` is HOST:PORT, with or without "http://" before it, or https://HOST[:PORT]; see Place. `token` may be
  /// empty. `cacert` names a file of certificate authorities to trust instead of the system's.
  HttpClient(std::string address, std::string token, std::filesystem::path cacert = {})
      : address_(std::move(address)), token_(std::move(token)), cacert_(std::move(cacert)) {}

  const std::string& address() const { return address_; }

  /// Makes a request and returns its answer, whatever the status. A connection that is not accepted within 10 s, or
  /// within the call's deadline if that is shorter, is given up.
  /// Fails with: invalid_argument (address), peer_lost (the connection was not accepted, or broke), deadline_exceeded
  /// (it was accepted, but no answer came), unauthenticated (the server does not prove to be that host), io (`cacert`
  /// cannot be read), cancelled (SIGINT).
  Result<HttpAnswer> request(HttpCall call) const;

  /// Gets a body of any size and passes it to `write` part by part. An incomplete body is an error.
  /// Fails with: the errors of request(), the error for an answer other than 200 (see answer_error), and the errors of
  /// `write`.
  Result<void> download(const std::string& target, const std::function<Result<void>(std::string_view)>& write) const;

  struct StreamHandlers {
    /// Called when the stream is open, also after each reconnection: from then on all events are reported.
    std::function<Result<void>()> opened;
    /// Called with each event. Returns whether to continue.
    std::function<Result<bool>(const ServerSentEvent&)> event;
    /// Called once whenever the connection has broken and will be replaced; for messages to people.
    std::function<void(const Error&)> broken;
  };

  /// Reads a stream of server-sent events until a handler stops it or fails. After a break it reconnects and continues
  /// where it stopped (Last-Event-ID), and gives up after `patience` without success. Once the stream was open, a head
  /// that cannot answer now and a handler that fails with peer_lost, deadline_exceeded or exhausted are such breaks,
  /// too.
  /// Fails with: cancelled (SIGINT), peer_lost, deadline_exceeded, the error for an answer other than 200 (see
  /// answer_error), and the errors of handlers.
  Result<void> stream(const std::string& target, const StreamHandlers& handlers,
                      std::chrono::seconds patience = std::chrono::seconds(60)) const;

 private:
  std::string address_;
  std::string token_;
  std::filesystem::path cacert_;
};

/// Converts an answer other than 2xx to an error whose text says what is wrong, where, and what to do. Understands
/// problem+json. Kinds: not_found (404), unauthenticated (401, 403), invalid_argument (400, 413, 415, 422), conflict
/// (409), exhausted (429, 503, 507), unsupported (404 for a path that no route has, 405), internal.
Error answer_error(const HttpAnswer& answer, const std::string& address);

}  // namespace weir::cli
