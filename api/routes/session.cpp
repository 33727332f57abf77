#include "api/routes/session.hpp"

#include <nlohmann/json.hpp>

#include "api/problem.hpp"
#include "api/services.hpp"

namespace weir::api {
namespace {

Reply no_content(std::string cookie) {
  Reply reply;
  reply.status = 204;
  return std::move(reply).with("Set-Cookie", std::move(cookie));
}

Reply to_dashboard() {
  Reply reply;
  reply.status = 303;
  return std::move(reply).with("Location", "/").with("Cache-Control", "no-store");
}

}  // namespace

net::awaitable<Reply> login(Services& services, const Request& request) {
  // A link opened twice in the same browser leads where it led the first time; looking at it (HEAD) does not use it up.
  if (request.method == "HEAD" || services.access.has_session(request)) co_return to_dashboard();
  auto redeemed = services.access.redeem_code(request.target.find("code").value_or(""), request);
  if (auto* refusal = std::get_if<Reply>(&redeemed)) co_return std::move(*refusal);
  co_return to_dashboard().with("Set-Cookie", std::get<std::string>(std::move(redeemed)));
}

net::awaitable<Reply> create_session(Services& services, const Request&) {
  co_return no_content(services.access.session_cookie());
}

net::awaitable<Reply> delete_session(Services& services, const Request&) {
  co_return no_content(services.access.expired_cookie());
}

net::awaitable<Reply> create_login_link(Services& services, const Request& request) {
  // The name the client used is one that works from where it is.
  const std::string host(request.header("host").value_or(""));
  const auto expires = std::chrono::floor<std::chrono::milliseconds>(services.access.code_expiry());
  co_return json_reply(201, {{"url", "http://" + host + "/login?code=" + services.access.make_code()},
                             {"expires_at", cluster::to_iso8601(expires)}})
      .with("Cache-Control", "no-store");
}

}  // namespace weir::api
