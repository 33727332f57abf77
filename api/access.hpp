#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/http.hpp"
#include "api/public_url.hpp"
#include "api/sessions.hpp"
#include "base/result.hpp"

namespace weir::api {

/// A parsed "HOST:PORT": an IP address (brackets around IPv6; "localhost" is 127.0.0.1) and a port, 0 for any.
struct ListenAddress {
  std::string host;
  std::uint16_t port = 0;
  bool loopback = true;
};

/// Who connects to an address: clients of the API, or nodes.
enum class Listener { http, control };

/// Parses `address`, "HOST:PORT", and checks that a listener may be opened on it. Beyond loopback that requires TLS,
/// which this build does not have, or the operator's explicit `insecure`. Fails with: invalid_argument (not an address;
/// not allowed: the text says how to allow it, and what it would mean for this kind of listener).
Result<ListenAddress> check_listen(std::string_view address, bool insecure, Listener listener = Listener::http);

/// Decides who may talk to the head: the names it answers to, the origins it trusts, and proofs of the token. Every
/// decision depends on the request alone; the only state is the sessions, the one-time codes and the count of recent
/// failures. Thread-safe.
class Access {
 public:
  using Clock = std::chrono::system_clock;

  struct Options {
    std::string token;
    std::uint16_t port = 0;                ///< where the listener is bound
    std::vector<std::string> allow_hosts;  ///< more names, "name" for any port or "name:port"
    std::optional<PublicUrl> public_url;   ///< address of the proxy in front, if there is one
    std::filesystem::path sessions_file;   ///< keeps sessions beyond the end of this process; "": none
    std::chrono::seconds code_lifetime = std::chrono::hours(1);
    std::function<Clock::time_point()> now = [] { return Clock::now(); };
  };

  explicit Access(Options options)
      : options_(std::move(options)),
        sessions_({.token = options_.token, .file = options_.sessions_file, .now = options_.now}) {}

  /// Returns nothing if the request may proceed; otherwise the refusal: 400 (no Host), 421 (not our name), 403 (other
  /// origin). A page whose DNS name was pointed at this address sends that name in Host; a page of another site sends
  /// that site in Origin.
  std::optional<Reply> check_origin(const Request& request) const;

  /// How the request proves that it knows the token: by `Authorization: Bearer` (then nothing else counts), or by a
  /// session cookie.
  Proof prove(const Request& request) const;

  /// Returns nothing if the request proves that it knows the token, by `Authorization: Bearer` or by a session cookie;
  /// otherwise 401, or 429 after ten wrong tokens or codes from one address within a minute. A right token is never
  /// refused.
  std::optional<Reply> authenticate(const Request& request);

  /// Makes a code for one login within the hour.
  std::string make_code();
  Clock::time_point code_expiry() const { return options_.now() + options_.code_lifetime; }

  /// Makes a link that logs a browser in, once. `host`, which must work for the browser, is used if there is no public
  /// URL.
  std::string login_link(std::string_view host);

  /// Uses a code up and begins a session. Returns the Set-Cookie value, or the refusal.
  std::variant<std::string, Reply> redeem_code(std::string_view code, const Request& request);

  /// Begins a session for the sender of `request` and returns its Set-Cookie value.
  std::string begin_session(const Request& request);
  /// The Set-Cookie value that makes a browser forget its session.
  std::string expired_cookie() const;
  /// The id of the session that the request's cookie belongs to, if it is valid.
  std::optional<std::string> session_of(const Request& request) const;

  Sessions& sessions() { return sessions_; }

 private:
  struct Failures {
    Clock::time_point since;
    unsigned count = 0;
  };

  bool host_allowed(std::string_view host, const std::string& local_address) const;
  std::string cookie_name() const { return "weir_session_" + std::to_string(options_.port); }
  std::string set_cookie(std::string_view value, std::chrono::seconds lifetime) const;
  /// Counts a failure of this address and returns the refusal.
  Reply refuse(const std::string& remote, std::string detail);

  Options options_;
  Sessions sessions_;
  std::mutex mutex_;                                             ///< guards codes_ and failures_
  std::map<std::string, Clock::time_point, std::less<>> codes_;  ///< expiry by code
  std::map<std::string, Failures, std::less<>> failures_;        ///< by address
};

}  // namespace weir::api
