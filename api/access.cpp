#include "api/access.hpp"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <charconv>

#include "api/authority.hpp"
#include "api/problem.hpp"
#include "api/secret.hpp"
#include "base/errc.hpp"

namespace weir::api {
namespace {

constexpr unsigned failures_max = 10;
constexpr auto failures_window = std::chrono::minutes(1);
constexpr std::size_t addresses_max = 4096;
constexpr std::size_t codes_max = 64;

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

/// What a request shows as the token. Other schemes of Authorization are not for this head: a proxy may ask for them.
std::optional<std::string_view> bearer_token(const Request& request) {
  const auto authorization = request.header("authorization").value_or("");
  const auto space = authorization.find(' ');
  if (to_lower(authorization.substr(0, space)) != "bearer") return std::nullopt;
  return space == std::string_view::npos ? "" : authorization.substr(space + 1);
}

bool is_loopback(const std::string& host) {
  boost::system::error_code no_address;
  const auto address = net::ip::make_address(host, no_address);
  return host == "localhost" || (!no_address && address.is_loopback());
}

}  // namespace

Result<ListenAddress> check_listen(std::string_view address, bool insecure, Listener listener) {
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
  if (listener == Listener::control) {
    return Error{Errc::invalid_argument,
                 "nodes that join at " + std::string(address) +
                     " would speak with the head in the clear, and whoever is on the network could read and change "
                     "what they say: listen on 127.0.0.1, or, on a network you trust, say --insecure"};
  }
  return Error{Errc::invalid_argument,
               "listening on " + std::string(address) +
                   " would send the token over the network in the clear: listen on 127.0.0.1 and reach it through an "
                   "SSH tunnel or a proxy that does TLS, or, on a network you trust, say --insecure"};
}

std::optional<Reply> Access::check_origin(const Request& request) const {
  const auto hosts = std::count_if(request.headers.begin(), request.headers.end(),
                                   [](const auto& header) { return header.first == "host"; });
  if (hosts != 1) return problem(400, "a request must have one Host");
  const std::string host = to_lower(*request.header("host"));
  if (!host_allowed(host, request.local_address))
    return problem(421,
                   "this head does not answer to the name \"" + host + "\"; if it should, start it with --allow-host");
  if (const auto origin = request.header("origin")) {
    const std::string text = to_lower(*origin);
    const bool of_proxy = options_.public_url && text == options_.public_url->origin();
    if (!of_proxy && text != "http://" + host && text != "https://" + host)
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
  if (options_.public_url && options_.public_url->is_at(authority->host, authority->port)) return true;
  // No other site can point these names at this head, whatever the port, which an SSH tunnel or a container may have
  // published under another number. The address that the client has connected to is a name of ours, too.
  return is_loopback(authority->host) || authority->host == local_address;
}

Proof Access::prove(const Request& request) const {
  const auto token = bearer_token(request);
  if (!token) return session_of(request) ? Proof::session : Proof::none;
  return equal_secrets(*token, options_.token) ? Proof::token : Proof::none;
}

std::optional<Reply> Access::authenticate(const Request& request) {
  if (prove(request) != Proof::none) return std::nullopt;
  if (bearer_token(request)) return refuse(request.remote, "the token is wrong");
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
    if (good) return begin_session(request);
  }
  return refuse(request.remote,
                "this link was used before or is too old; the head prints a fresh one when it starts, "
                "and POST /api/v1/session/links makes more");
}

std::string Access::begin_session(const Request& request) {
  auto secret = sessions_.begin(request.remote, std::string(request.header("user-agent").value_or("")));
  return set_cookie(secret, sessions_.lifetime());
}

std::string Access::expired_cookie() const { return set_cookie("", std::chrono::seconds(0)); }

std::string Access::set_cookie(std::string_view value, std::chrono::seconds lifetime) const {
  const bool https = options_.public_url && options_.public_url->https();
  return cookie_name() + "=" + std::string(value) + "; Path=/; HttpOnly; SameSite=Strict" + (https ? "; Secure" : "") +
         "; Max-Age=" + std::to_string(lifetime.count());
}

std::optional<std::string> Access::session_of(const Request& request) const {
  const auto value = cookie(request, cookie_name());
  return value ? sessions_.find(*value) : std::nullopt;
}

std::string Access::login_link(std::string_view host) {
  const std::string base = options_.public_url ? options_.public_url->origin() : "http://" + std::string(host);
  return base + "/login?code=" + make_code();
}

}  // namespace weir::api
