#include "api/routes/session.hpp"

#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>

#include "api/problem.hpp"
#include "api/services.hpp"
#include "cluster/run_on.hpp"

namespace weir::api {
namespace {

Reply no_content() {
  Reply reply;
  reply.status = 204;
  return reply;
}

Reply to_dashboard() {
  Reply reply;
  reply.status = 303;
  return std::move(reply).with("Location", "/").with("Cache-Control", "no-store");
}

/// A page for somebody who has followed a link, in place of the problem's JSON. `text` is HTML.
Reply page(Reply refusal, std::string_view text) {
  refusal.problem.reset();
  refusal.body =
      "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\"><title>weir</title></head>\n<body><h1>weir</h1><p>" +
      std::string(text) + "</p></body>\n</html>\n";
  return std::move(refusal).with("Content-Type", "text/html; charset=utf-8").with("Cache-Control", "no-store");
}

Reply refused_login(Reply refusal, const Request& request) {
  if (request.header("accept").value_or("").find("text/html") == std::string_view::npos) return refusal;
  const bool of_the_link = refusal.status == 401;
  return page(std::move(refusal), of_the_link
                                      ? "This link was used or is too old: <code>weir token link</code> prints another."
                                      : "Too many failed logins came from this address. Try again in a minute.");
}

nlohmann::json to_json(const Session& session, const std::optional<std::string>& current) {
  const auto iso8601 = [](Session::Time time) {
    return cluster::to_iso8601(std::chrono::floor<std::chrono::milliseconds>(time));
  };
  return {{"id", session.id},
          {"created_at", iso8601(session.created_at)},
          {"expires_at", iso8601(session.expires_at)},
          {"address", session.address},
          {"agent", session.agent},
          {"current", current == session.id}};
}

/// A browser may log in while the disk is full: its session then ends with this process.
net::awaitable<void> keep_new_session(Services& services) {
  auto save = [&sessions = services.access.sessions()] { return sessions.save(); };
  const auto saved = co_await cluster::run_on(services.blocking, std::move(save));
  if (!saved) spdlog::warn("a new session will not outlive this head: {}", saved.error().message());
}

/// Ends one session, on the executor for blocking work.
net::awaitable<Result<bool>> revoke(Services& services, std::string id) {
  auto end = [&sessions = services.access.sessions(), id = std::move(id)] { return sessions.revoke(id); };
  co_return co_await cluster::run_on(services.blocking, std::move(end));
}

}  // namespace

net::awaitable<Reply> login(Services& services, const Request& request) {
  // A link opened twice in the same browser leads to the dashboard again; HEAD does not use it up.
  if (request.method == "HEAD" || services.access.session_of(request)) co_return to_dashboard();
  auto redeemed = services.access.redeem_code(request.target.find("code").value_or(""), request);
  if (auto* refusal = std::get_if<Reply>(&redeemed)) co_return refused_login(std::move(*refusal), request);
  co_await keep_new_session(services);
  co_return to_dashboard().with("Set-Cookie", std::get<std::string>(std::move(redeemed)));
}

net::awaitable<Reply> create_session(Services& services, const Request& request) {
  auto cookie = services.access.begin_session(request);
  co_await keep_new_session(services);
  co_return no_content().with("Set-Cookie", std::move(cookie));
}

net::awaitable<Reply> delete_session(Services& services, const Request& request) {
  if (const auto id = services.access.session_of(request)) {
    const auto revoked = co_await revoke(services, *id);
    if (!revoked) co_return problem(revoked.error());
  }
  co_return no_content().with("Set-Cookie", services.access.expired_cookie());
}

net::awaitable<Reply> create_login_link(Services& services, const Request& request) {
  // The host name that the client used works from where it is.
  const auto expires = std::chrono::floor<std::chrono::milliseconds>(services.access.code_expiry());
  co_return json_reply(201, {{"url", services.access.login_link(request.header("host").value_or(""))},
                             {"expires_at", cluster::to_iso8601(expires)}})
      .with("Cache-Control", "no-store");
}

net::awaitable<Reply> list_sessions(Services& services, const Request& request) {
  const auto current = services.access.session_of(request);
  auto sessions = nlohmann::json::array();
  for (const auto& session : services.access.sessions().list()) sessions.push_back(to_json(session, current));
  co_return json_reply(200, {{"sessions", std::move(sessions)}, {"next", nullptr}});
}

net::awaitable<Reply> revoke_session(Services& services, const Request& request) {
  const auto& id = request.parameter("id");
  const auto revoked = co_await revoke(services, id);
  if (!revoked) co_return problem(revoked.error());
  if (!*revoked) co_return problem(404, "there is no session " + id);
  co_return no_content();
}

net::awaitable<Reply> revoke_sessions(Services& services, const Request&) {
  auto revoke_all = [&sessions = services.access.sessions()] { return sessions.revoke_all(); };
  const auto count = co_await cluster::run_on(services.blocking, std::move(revoke_all));
  if (!count) co_return problem(count.error());
  co_return json_reply(200, {{"revoked", *count}});
}

}  // namespace weir::api
