// Who may call what, over the whole route table.
#include <filesystem>
#include <fstream>

#include "api/router.hpp"
#include "tests/api/fixture.hpp"
#include "tests/cluster/temporary_dir.hpp"

namespace weir::api {
namespace {

const std::vector<std::string> every_method = {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "FROB"};

/// A path that the pattern matches.
std::string example(std::string_view pattern) {
  if (pattern == "*") return "/anything";
  std::string path;
  bool inside = false;
  for (const char c : pattern) {
    if (c == '{') path += "x";
    inside = (inside || c == '{') && c != '}';
    if (!inside && c != '}') path += c;
  }
  return path;
}

class GuardTest : public ServerTest {
 protected:
  /// Asks on one connection, without a token unless `headers` has it.
  Answer ask(const std::string& method, const std::string& target, const std::string& headers) {
    if (!wire_) wire_.emplace(port());
    wire_->send(method + " " + target + " HTTP/1.1\r\n" + headers + "Content-Length: 0\r\n\r\n");
    auto answer = wire_->answer(method == "HEAD");
    if (!answer.keep_alive()) wire_.reset();
    return answer;
  }

  /// The headers of a browser that has logged in with the token.
  std::string log_in(const std::string& headers = "") {
    const auto plain = "Host: " + host() + "\r\n";
    const auto answer = ask("POST", "/api/v1/session", plain + authorized_ + headers);
    EXPECT_EQ(answer.result_int(), 204u);
    const std::string set_cookie(answer[http::field::set_cookie]);
    return plain + "Cookie: " + set_cookie.substr(0, set_cookie.find(';')) + "\r\n";
  }

  std::optional<Wire> wire_;
  const std::string authorized_ = "Authorization: Bearer " + test_token + "\r\n";
};

TEST_F(GuardTest, EveryRouteButHealthAndTheDashboardsFilesNeedsTheToken) {
  for (const auto& route : routes()) {
    for (const auto& method : every_method) {
      const auto path = example(route.pattern);
      const auto answer = ask(method, path, "Host: " + host() + "\r\n");
      const bool open = path == "/healthz" || path == "/readyz" || path == "/login" || route.pattern == "*";
      EXPECT_EQ(route.guard == Guard::open, open) << route.pattern;
      // A login without a code is the one refusal that an open route makes.
      const bool refused = !open || (path == "/login" && method == "GET");
      EXPECT_EQ(answer.result_int() == 401, refused) << method << " " << path << " " << answer.result_int();
    }
  }
  EXPECT_EQ(ask("GET", "/api/v1/nothing", "Host: " + host() + "\r\n").result_int(), 401u);
  EXPECT_EQ(ask("GET", "/api", "Host: " + host() + "\r\n").result_int(), 401u);
}

TEST_F(GuardTest, WrongHostIsRefusedOnEveryRouteAndMethod) {
  for (const auto& route : routes())
    for (const auto& method : every_method)
      EXPECT_EQ(ask(method, example(route.pattern), "Host: evil.example\r\n" + authorized_).result_int(), 421u)
          << method << " " << route.pattern;
}

TEST_F(GuardTest, OtherOriginsAreRefusedOnEveryRouteAndMethod) {
  add_job("x");
  for (const auto& route : routes())
    for (const auto& method : every_method)
      EXPECT_EQ(
          ask(method, example(route.pattern), "Host: " + host() + "\r\nOrigin: http://evil.example\r\n" + authorized_)
              .result_int(),
          403u)
          << method << " " << route.pattern;
  on_head([&] { EXPECT_TRUE(head.jobs_by_id.contains("x")); });
}

TEST_F(GuardTest, WrongMethodsAnswerWhichOnesWork) {
  const auto answer = ask("PUT", "/api/v1/jobs", "Host: " + host() + "\r\n" + authorized_);
  expect_problem(answer, 405);
  EXPECT_EQ(answer[http::field::allow], "GET, HEAD, POST, OPTIONS");
  const auto options = ask("OPTIONS", "/api/v1/jobs/x", "Host: " + host() + "\r\n" + authorized_);
  EXPECT_EQ(options.result_int(), 204u);
  EXPECT_EQ(options[http::field::allow], "GET, HEAD, DELETE, OPTIONS");
  expect_problem(ask("POST", "/", "Host: " + host() + "\r\n"), 405);
}

TEST_F(GuardTest, TokenMayNotComeInTheUrl) {
  EXPECT_EQ(ask("GET", "/api/v1/jobs?token=" + test_token, "Host: " + host() + "\r\n").result_int(), 401u);
}

TEST_F(GuardTest, LoginLinkSetsACookieOnceAndTheCookieLogsIn) {
  start();
  const auto link = server->login_link();
  const auto path = link.substr(link.find("/login"));
  const std::string plain = "Host: " + host() + "\r\n";
  EXPECT_EQ(ask("HEAD", path, plain).result_int(), 303u);
  const auto answer = ask("GET", path, plain);
  EXPECT_EQ(answer.result_int(), 303u);
  EXPECT_EQ(answer[http::field::location], "/");
  const std::string set_cookie(answer[http::field::set_cookie]);
  const auto cookie = plain + "Cookie: " + set_cookie.substr(0, set_cookie.find(';')) + "\r\n";
  EXPECT_EQ(ask("GET", "/api/v1/jobs", cookie).result_int(), 200u);
  EXPECT_EQ(ask("GET", path, cookie).result_int(), 303u);
  expect_problem(ask("GET", path, plain), 401);
  // The cookie alone, from a page of another site, changes nothing.
  EXPECT_EQ(ask("DELETE", "/api/v1/session", cookie + "Sec-Fetch-Site: cross-site\r\n").result_int(), 403u);
  const auto out = ask("DELETE", "/api/v1/session", cookie);
  EXPECT_EQ(out.result_int(), 204u);
  EXPECT_NE(out[http::field::set_cookie].find("Max-Age=0"), std::string_view::npos);
  EXPECT_EQ(ask("GET", "/api/v1/jobs", cookie).result_int(), 401u) << "a copy of the cookie outlived the logout";
}

TEST_F(GuardTest, ALinkThatIsUsedUpTellsABrowserWhatToDo) {
  const std::string browser = "Host: " + host() + "\r\nAccept: text/html,application/xhtml+xml,*/*;q=0.8\r\n";
  const auto page = ask("GET", "/login?code=used", browser);
  EXPECT_EQ(page.result_int(), 401u);
  EXPECT_EQ(page[http::field::content_type], "text/html; charset=utf-8");
  EXPECT_NE(page.body().find("This link was used or is too old: <code>weir token link</code> prints another."),
            std::string::npos)
      << page.body();
  const auto problem = ask("GET", "/login?code=used", "Host: " + host() + "\r\nAccept: */*\r\n");
  expect_problem(problem, 401);
  for (const char* header : {"Content-Security-Policy", "X-Content-Type-Options", "X-Frame-Options", "Referrer-Policy",
                             "Cross-Origin-Resource-Policy", "WWW-Authenticate"}) {
    EXPECT_EQ(page[header], problem[header]) << header;
    EXPECT_NE(page[header], "") << header;
  }
  EXPECT_EQ(page[http::field::cache_control], "no-store");

  for (int i = 2; i < 10; ++i) EXPECT_EQ(ask("GET", "/login?code=used", browser).result_int(), 401u);
  const auto later = ask("GET", "/login?code=used", browser);
  EXPECT_EQ(later.result_int(), 429u);
  EXPECT_EQ(later[http::field::retry_after], "60");
  EXPECT_EQ(later[http::field::content_type], "text/html; charset=utf-8");
  EXPECT_NE(later.body().find("Try again in a minute"), std::string::npos);
}

TEST_F(GuardTest, SessionCannotRenewItself) {
  const auto cookie = log_in();
  EXPECT_EQ(ask("GET", "/api/v1/sessions", cookie).result_int(), 200u);
  for (const char* path : {"/api/v1/session", "/api/v1/session/links"}) {
    const auto answer = ask("POST", path, cookie);
    expect_problem(answer, 403);
    EXPECT_EQ(answer.count(http::field::set_cookie), 0u) << path;
  }
}

TEST_F(GuardTest, SessionsAreListedAndRevoked) {
  const auto authorized = "Host: " + host() + "\r\n" + authorized_;
  const auto first = log_in("User-Agent: first\r\n");
  const auto second = log_in("User-Agent: second\r\n");
  const auto listed = parsed(ask("GET", "/api/v1/sessions", second))["sessions"];
  ASSERT_EQ(listed.size(), 2u);
  std::map<std::string, nlohmann::json> by_agent;
  for (const auto& session : listed) by_agent[session["agent"]] = session;
  EXPECT_EQ(by_agent["second"]["current"], true);
  EXPECT_EQ(by_agent["second"]["address"], "127.0.0.1");
  const auto& other = by_agent["first"];
  EXPECT_EQ(other["current"], false);
  for (const auto& [agent, session] : by_agent)
    EXPECT_EQ(second.find(session["id"].get<std::string>()) != std::string::npos, agent == "second");

  expect_problem(ask("DELETE", "/api/v1/sessions/0123456789abcdef", authorized), 404);
  EXPECT_EQ(ask("DELETE", "/api/v1/sessions/" + other["id"].get<std::string>(), authorized).result_int(), 204u);
  EXPECT_EQ(ask("GET", "/api/v1/jobs", first).result_int(), 401u);
  EXPECT_EQ(ask("GET", "/api/v1/jobs", second).result_int(), 200u);
  log_in();
  EXPECT_EQ(parsed(ask("DELETE", "/api/v1/sessions", authorized))["revoked"], 2);
  EXPECT_EQ(ask("GET", "/api/v1/jobs", second).result_int(), 401u);
  EXPECT_TRUE(parsed(ask("GET", "/api/v1/sessions", authorized))["sessions"].empty());
}

TEST_F(GuardTest, ALogoutThatTheDiskRefusesHasNotHappenedAndIsAskedForAgain) {
  const cluster::TemporaryDir dir;
  const auto folder = dir.path() / "head";
  const auto aside = dir.path() / "aside";
  std::filesystem::create_directory(folder);
  options.sessions_file = folder / "sessions.json";
  const auto saved = [this] {
    std::ifstream file(options.sessions_file);
    return nlohmann::json::parse(file).size();
  };
  const auto cookie = log_in();
  const std::string id = parsed(ask("GET", "/api/v1/sessions", cookie))["sessions"][0]["id"];
  for (const std::string& target :
       {std::string("/api/v1/session"), "/api/v1/sessions/" + id, std::string("/api/v1/sessions")}) {
    std::filesystem::rename(folder, aside);
    expect_problem(ask("DELETE", target, cookie), 503);
    EXPECT_EQ(ask("GET", "/api/v1/jobs", cookie).result_int(), 200u) << "it is still logged in after " << target;
    std::filesystem::rename(aside, folder);
    EXPECT_EQ(saved(), 1u);
  }
  const auto out = ask("DELETE", "/api/v1/session", cookie);
  EXPECT_EQ(out.result_int(), 204u);
  EXPECT_NE(out[http::field::set_cookie].find("Max-Age=0"), std::string_view::npos);
  EXPECT_EQ(saved(), 0u);
  EXPECT_EQ(ask("GET", "/api/v1/jobs", cookie).result_int(), 401u);
  const auto authorized = "Host: " + host() + "\r\n" + authorized_;
  EXPECT_EQ(ask("DELETE", "/api/v1/session", authorized).result_int(), 204u) << "there is none to end";
}

TEST_F(GuardTest, TokenBuysACookieAndALink) {
  const auto authorized = "Host: " + host() + "\r\n" + authorized_;
  EXPECT_EQ(ask("POST", "/api/v1/session", authorized).result_int(), 204u);
  const auto answer = ask("POST", "/api/v1/session/links", authorized);
  EXPECT_EQ(answer.result_int(), 201u);
  const std::string url = parsed(answer)["url"];
  EXPECT_EQ(ask("GET", url.substr(url.find("/login")), "Host: " + host() + "\r\n").result_int(), 303u);
}

TEST_F(GuardTest, ElevenWrongTokensAreTooMany) {
  const auto wrong = "Host: " + host() + "\r\nAuthorization: Bearer wrong\r\n";
  for (int i = 0; i < 10; ++i) expect_problem(ask("GET", "/api/v1/jobs", wrong), 401);
  const auto answer = ask("GET", "/api/v1/jobs", wrong);
  expect_problem(answer, 429);
  EXPECT_EQ(answer[http::field::retry_after], "60");
}

TEST_F(GuardTest, ServerWithoutTokenDoesNotStart) {
  options.token.clear();
  EXPECT_FALSE(Server::start(options, head, io.get_executor(), clock));
  options.token = test_token;
  options.listen = "0.0.0.0:0";
  EXPECT_FALSE(Server::start(options, head, io.get_executor(), clock));
}

TEST_F(GuardTest, AnyLoopbackAddressAnswersToItsOwnLink) {
  options.listen = "127.0.0.2:0";
  start();
  const auto link = server->login_link();
  ASSERT_TRUE(link.starts_with("http://127.0.0.2:")) << link;
  Wire wire(port(), "127.0.0.2");
  wire.send("GET " + link.substr(link.find("/login")) + " HTTP/1.1\r\nHost: " + server->address() + "\r\n\r\n");
  EXPECT_EQ(wire.answer().result_int(), 303u);
}

TEST_F(GuardTest, ListeningEverywhereItNamesAnAddressThatItAnswersTo) {
  options.listen = "0.0.0.0:0";
  options.insecure = true;
  start();
  EXPECT_EQ(server->address(), host());
  EXPECT_TRUE(server->login_link().starts_with("http://" + host() + "/login?code="));
  EXPECT_EQ(ask("GET", "/api/v1/jobs", "Host: " + server->address() + "\r\n" + authorized_).result_int(), 200u);
}

TEST_F(GuardTest, AnIPv6ListenerKnowsItsIPv4Addresses) {
  options.listen = "[::]:0";
  options.insecure = true;
  start();
  Wire wire(port(), "127.0.0.2");
  const std::string name = "127.0.0.2:" + std::to_string(port());
  wire.send("GET /api/v1/jobs HTTP/1.1\r\nHost: " + name + "\r\n" + authorized_ + "\r\n");
  EXPECT_EQ(wire.answer().result_int(), 200u);
}

}  // namespace
}  // namespace weir::api
