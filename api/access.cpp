#include "api/access.hpp"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <charconv>
#include <span>

#include "api/problem.hpp"
#include "base/errc.hpp"
#include "base/hmac.hpp"

namespace weir::api {
namespace {

constexpr unsigned failures_max = 10;
constexpr auto failures_window = std::chrono::minutes(1);
constexpr std::size_t addresses_max = 4096;
constexpr std::size_t codes_max = 64;

BytesView bytes_of(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

std::string hex(const Digest& digest) {
  static constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const auto byte : digest)
    text += {digits[std::to_integer<unsigned>(byte) >> 4], digits[std::to_integer<unsigned>(byte) & 15]};
  return text;
}

/// Takes as long for a wrong secret as for a right one: what is compared are MACs under a key nobody knows.
bool equal_secret(std::string_view a, std::string_view b) {
  static const std::string key = random_hex();
  return equal_in_constant_time(hmac_sha256(key, {bytes_of(a)}), hmac_sha256(key, {bytes_of(b)}));
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return result;
}

struct Authority {
  std::string host;  ///< lower case, without brackets
  std::string port;  ///< or ""
};

/// "name", "name:port", "1.2.3.4:port", "[::1]:port".
std::optional<Authority> parse_authority(std::string_view text) {
  Authority authority;
  std::string_view rest;
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    authority.host = lower(text.substr(1, end - 1));
    rest = text.substr(end + 1);
  } else {
    const auto colon = text.find(':');
    authority.host = lower(text.substr(0, colon));
    rest = colon == std::string_view::npos ? "" : text.substr(colon);
  }
  if (authority.host.empty()) return std::nullopt;
  if (rest.empty()) return authority;
  if (rest.front() != ':' || rest.size() < 2 || rest.size() > 6) return std::nullopt;
  authority.port = rest.substr(1);
  if (authority.port.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  return authority;
}

std::optional<std::string_view> cookie(const Request& request, std::string_view name) {
  auto rest = request.header("cookie").value_or("");
  while (!rest.empty()) {
    const auto end = rest.find(';');
    auto pair = rest.substr(0, end);
    pair.remove_prefix(std::min(pair.find_first_not_of(' '), pair.size()));
    if (pair.starts_with(name) && pair.substr(name.size()).starts_with('=')) return pair.substr(name.size() + 1);
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return std::nullopt;
}

std::int64_t unix_seconds(Access::Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

}  // namespace

Result<ListenAddress> check_listen(std::string_view address, bool insecure) {
  const Error unclear{Errc::invalid_argument, "\"" + std::string(address) +
                                                  "\" is not an address to listen on; say for example 127.0.0.1:8265"};
  const auto authority = parse_authority(address);
  if (!authority || authority->port.empty()) return unclear;
  ListenAddress listen;
  listen.host = authority->host == "localhost" ? "127.0.0.1" : authority->host;
  const auto& port = authority->port;
  if (std::from_chars(port.data(), port.data() + port.size(), listen.port).ec != std::errc{}) return unclear;
  boost::system::error_code ec;
  listen.loopback = net::ip::make_address(listen.host, ec).is_loopback();
  if (ec) return unclear;
  if (listen.loopback || insecure) return listen;
  return Error{Errc::invalid_argument,
               "listening on " + std::string(address) +
                   " would send the token over the network in the clear: listen on 127.0.0.1 and reach it through an "
                   "SSH tunnel or a proxy that does TLS, or, on a network you trust, say --insecure"};
}

std::optional<Reply> Access::check_origin(const Request& request) const {
  const auto hosts = std::count_if(request.headers.begin(), request.headers.end(),
                                   [](const auto& header) { return header.first == "host"; });
  if (hosts != 1) return problem(400, "a request must have one Host");
  const std::string host = lower(*request.header("host"));
  if (!host_allowed(host, request.local_address))
    return problem(421,
                   "this head does not answer to the name \"" + host + "\"; if it should, start it with --allow-host");
  if (const auto origin = request.header("origin")) {
    const std::string text = lower(*origin);
    if (text != "http://" + host && text != "https://" + host)
      return problem(403, "requests from the origin \"" + text + "\" are not accepted");
  }
  if (!request.safe()) {
    const auto site = request.header("sec-fetch-site");
    if (site && *site != "same-origin" && *site != "none")
      return problem(403, "requests from other sites are not accepted");
  }
  return std::nullopt;
}

bool Access::host_allowed(std::string_view host, const std::string& local_address) const {
  const auto authority = parse_authority(host);
  if (!authority) return false;
  for (const auto& allowed : options_.allow_hosts) {
    const auto known = parse_authority(allowed);
    if (known && known->host == authority->host && (known->port.empty() || known->port == authority->port)) return true;
  }
  const bool loopback = authority->host == "localhost" || authority->host == "127.0.0.1" || authority->host == "::1";
  // Bound to loopback, the port in use is the only one a client can mean. Otherwise the port may have been published
  // under another number (a container's), and the address the client connected to is a name of ours as well.
  if (options_.loopback_only) return loopback && authority->port == std::to_string(options_.port);
  return loopback || authority->host == local_address;
}

Proof Access::prove(const Request& request) const {
  const auto authorization = request.header("authorization");
  if (!authorization) return has_session(request) ? Proof::session : Proof::none;
  const auto space = authorization->find(' ');
  const bool bearer = space != std::string_view::npos && lower(authorization->substr(0, space)) == "bearer";
  return bearer && equal_secret(authorization->substr(space + 1), options_.token) ? Proof::token : Proof::none;
}

std::optional<Reply> Access::authenticate(const Request& request) {
  if (prove(request) != Proof::none) return std::nullopt;
  if (request.header("authorization")) return refuse(request.remote, "the token is wrong");
  return problem(401,
                 "send the head's token as \"Authorization: Bearer TOKEN\" (it is in <data-dir>/token), or open "
                 "the dashboard through the link that the head prints");
}

Reply Access::refuse(const std::string& remote, std::string detail) {
  const std::lock_guard lock(mutex_);
  const auto now = options_.now();
  if (failures_.size() >= addresses_max)
    std::erase_if(failures_, [&](const auto& entry) { return now - entry.second.since > failures_window; });
  if (failures_.size() >= addresses_max) failures_.clear();
  auto& failures = failures_[remote];
  if (now - failures.since > failures_window) failures = {now, 0};
  if (++failures.count > failures_max)
    return problem(429, "too many failed logins from this address; try again in a minute");
  return problem(401, std::move(detail));
}

std::string Access::make_code() {
  const std::lock_guard lock(mutex_);
  const auto now = options_.now();
  std::erase_if(codes_, [&](const auto& entry) { return entry.second < now; });
  if (codes_.size() >= codes_max)
    codes_.erase(std::min_element(codes_.begin(), codes_.end(),
                                  [](const auto& a, const auto& b) { return a.second < b.second; }));
  auto code = random_hex();
  codes_.emplace(code, now + options_.code_lifetime);
  return code;
}

std::variant<std::string, Reply> Access::redeem_code(std::string_view code, const Request& request) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = codes_.find(code);
    const bool good = found != codes_.end() && found->second >= options_.now();
    if (found != codes_.end()) codes_.erase(found);
    if (good) return session_cookie();
  }
  return refuse(request.remote,
                "this link was used before or is too old; the head prints a fresh one when it starts, "
                "and POST /api/v1/session/links makes more");
}

std::string Access::session_cookie() const {
  const auto end = std::to_string(unix_seconds(options_.now() + options_.session_lifetime));
  return cookie_name() + "=" + end + "." + sign(end) +
         "; Path=/; HttpOnly; SameSite=Strict; Max-Age=" + std::to_string(options_.session_lifetime.count());
}

std::string Access::expired_cookie() const { return cookie_name() + "=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"; }

bool Access::has_session(const Request& request) const {
  const auto value = cookie(request, cookie_name());
  if (!value) return false;
  const auto dot = value->find('.');
  if (dot == std::string_view::npos || !equal_secret(value->substr(dot + 1), sign(value->substr(0, dot)))) return false;
  std::int64_t end = 0;
  const auto text = value->substr(0, dot);
  std::from_chars(text.data(), text.data() + text.size(), end);
  return unix_seconds(options_.now()) < end;
}

std::string Access::sign(std::string_view text) const {
  const std::string message = "weir session " + std::string(text);
  return hex(hmac_sha256(options_.token, {bytes_of(message)}));
}

std::string random_hex() { return hex(random_digest()); }

}  // namespace weir::api
