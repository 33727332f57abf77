#include "api/access.hpp"

#include <gtest/gtest.h>

#include "api/metric_text.hpp"

namespace weir::api {
namespace {

using namespace std::chrono_literals;

class AccessTest : public ::testing::Test {
 protected:
  Access make(std::vector<std::string> names = {}) {
    return Access({.token = "secret",
                   .port = 8265,
                   .allow_hosts = std::move(names),
                   .public_url = {},
                   .sessions_file = {},
                   .now = [this] { return now; }});
  }

  static Request request(std::string host, std::string method = "GET", Headers more = {}) {
    Request r;
    r.method = std::move(method);
    r.headers = std::move(more);
    r.headers.emplace_back("host", std::move(host));
    r.remote = "127.0.0.1";
    r.local_address = "10.0.0.7";
    return r;
  }

  static unsigned status(const std::optional<Reply>& refusal) { return refusal ? refusal->status : 200; }

  Access::Clock::time_point now = Access::Clock::time_point(std::chrono::hours(500'000));
};

TEST_F(AccessTest, LoopbackAnswersToItsNamesOnAnyPort) {
  const auto access = make();
  for (const char* host : {"localhost:8265", "127.0.0.1:8265", "[::1]:8265", "LOCALHOST:8265", "127.0.0.1:19000",
                           "localhost:19000", "[::1]:19000", "localhost", "127.0.0.2:8265"})
    EXPECT_EQ(status(access.check_origin(request(host))), 200u) << host;
  for (const char* host : {"evil.example:8265", "127.0.0.1.evil.example:8265", "0.0.0.0:8265", "10.0.0.8:8265", "",
                           "localhost:8265.evil.example", "127.0.0.1:", "[::1", "localhost:8265@evil", "[::1]8265"})
    EXPECT_EQ(status(access.check_origin(request(host))), 421u) << host;
}

TEST_F(AccessTest, HostMustBeThereOnce) {
  const auto access = make();
  auto twice = request("localhost:8265");
  twice.headers.emplace_back("host", "localhost:8265");
  EXPECT_EQ(status(access.check_origin(twice)), 400u);
  auto none = request("");
  none.headers.clear();
  EXPECT_EQ(status(access.check_origin(none)), 400u);
}

TEST_F(AccessTest, PublishedPortAndExtraNames) {
  const auto access = make({"head", "cluster.example:443"});
  for (const char* host :
       {"localhost:18265", "127.0.0.1:9", "10.0.0.7:8265", "head:8265", "head", "cluster.example:443"})
    EXPECT_EQ(status(access.check_origin(request(host))), 200u) << host;
  for (const char* host : {"cluster.example:80", "evil.example", "10.0.0.8:8265"})
    EXPECT_EQ(status(access.check_origin(request(host))), 421u) << host;
}

TEST_F(AccessTest, OriginIsCheckedForEveryMethodAndSiteForUnsafeOnes) {
  const auto access = make();
  for (const char* method : {"GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH", "FROB"}) {
    const auto with = [&](const char* name, const char* value) {
      return status(access.check_origin(request("localhost:8265", method, {{name, value}})));
    };
    EXPECT_EQ(with("origin", "http://localhost:8265"), 200u) << method;
    EXPECT_EQ(with("origin", "http://evil.example"), 403u) << method;
    EXPECT_EQ(with("origin", "http://localhost:9999"), 403u) << method;
    EXPECT_EQ(with("origin", "null"), 403u) << method;
    EXPECT_EQ(with("sec-fetch-site", "same-origin"), 200u) << method;
    const bool safe = request("", method).safe();
    EXPECT_EQ(with("sec-fetch-site", "cross-site"), safe ? 200u : 403u) << method;
    EXPECT_EQ(with("sec-fetch-site", "same-site"), safe ? 200u : 403u) << method;
  }
}

TEST_F(AccessTest, BearerToken) {
  auto access = make();
  const auto with = [&](const char* value) {
    return status(access.authenticate(request("localhost:8265", "GET", {{"authorization", value}})));
  };
  EXPECT_EQ(with("Bearer secret"), 200u);
  EXPECT_EQ(with("bearer secret"), 200u);
  for (const char* wrong : {"Bearer secre", "Bearer secret2", "Bearer ", "Bearer", "Basic secret", "secret", ""})
    EXPECT_EQ(with(wrong), 401u) << wrong;
  EXPECT_EQ(status(access.authenticate(request("localhost:8265"))), 401u);
}

TEST_F(AccessTest, WrongTokensAreRateLimitedRightOnesAreNot) {
  auto access = make();
  const auto wrong = request("localhost:8265", "GET", {{"authorization", "Bearer wrong"}});
  const auto of_proxy = request("localhost:8265", "GET", {{"authorization", "Basic dXNlcjpwYXNz"}});
  for (int i = 0; i < 20; ++i) EXPECT_EQ(status(access.authenticate(of_proxy)), 401u) << "no token that is wrong";
  for (int i = 0; i < 10; ++i) EXPECT_EQ(status(access.authenticate(wrong)), 401u);
  EXPECT_EQ(status(access.authenticate(wrong)), 429u);
  EXPECT_EQ(status(access.authenticate(request("localhost:8265", "GET", {{"authorization", "Bearer secret"}}))), 200u);
  auto elsewhere = wrong;
  elsewhere.remote = "127.0.0.2";
  EXPECT_EQ(status(access.authenticate(elsewhere)), 401u);
  now += 61s;
  EXPECT_EQ(status(access.authenticate(wrong)), 401u);
}

TEST_F(AccessTest, CodeIsGoodOnceAndForAnHour) {
  auto access = make();
  const auto visitor = request("localhost:8265");
  const auto good = [&](const std::string& code) {
    return std::holds_alternative<std::string>(access.redeem_code(code, visitor));
  };
  const auto code = access.make_code();
  EXPECT_FALSE(good(""));
  EXPECT_FALSE(good(code.substr(1)));
  EXPECT_TRUE(good(code));
  EXPECT_FALSE(good(code));
  const auto late = access.make_code();
  now += 2h;
  EXPECT_FALSE(good(late));
}

TEST_F(AccessTest, SessionCookieEndsWithItsTimeHoweverOftenItIsUsed) {
  auto access = make();
  const auto set_cookie = access.begin_session(request("localhost:8265"));
  EXPECT_NE(set_cookie.find("; HttpOnly; SameSite=Strict; Max-Age=2592000"), std::string::npos) << set_cookie;
  EXPECT_EQ(set_cookie.find("Secure"), std::string::npos);
  const auto value = set_cookie.substr(0, set_cookie.find(';'));
  const auto with = [&](const std::string& cookies) {
    return access.prove(request("localhost:8265", "GET", {{"cookie", cookies}})) == Proof::session;
  };
  EXPECT_TRUE(with(value));
  EXPECT_TRUE(with("a=b; " + value + "; c=d"));
  EXPECT_FALSE(with("x" + value));
  EXPECT_FALSE(with(value + "0"));
  const auto beside = [&](const char* authorization) {
    return access.prove(request("localhost:8265", "GET", {{"cookie", value}, {"authorization", authorization}}));
  };
  EXPECT_EQ(beside("Basic dXNlcjpwYXNz"), Proof::session) << "that is for the proxy in front";
  EXPECT_EQ(beside("Bearer wrong"), Proof::none);
  EXPECT_EQ(beside("Bearer secret"), Proof::token);
  auto forged = value;
  forged.back() = forged.back() == '0' ? '1' : '0';
  EXPECT_FALSE(with(forged));
  EXPECT_FALSE(with("weir_session_8265="));
  for (int day = 0; day < 30; ++day, now += std::chrono::hours(24)) EXPECT_TRUE(with(value)) << day;
  EXPECT_FALSE(with(value));
}

TEST_F(AccessTest, BehindAProxyCookiesAreSecureLinksHttpsAndItsOriginIsOurs) {
  Access access({.token = "secret",
                 .port = 8265,
                 .allow_hosts = {},
                 .public_url = *PublicUrl::parse("https://Weir.example/"),
                 .sessions_file = {}});
  EXPECT_NE(access.begin_session(request("weir.example")).find("; Secure;"), std::string::npos);
  EXPECT_NE(access.expired_cookie().find("; Secure;"), std::string::npos);
  EXPECT_TRUE(access.login_link("127.0.0.1:8265").starts_with("https://weir.example/login?code="));
  const auto ask = [&](const char* host, const char* origin) {
    return status(access.check_origin(request(host, "POST", {{"origin", origin}})));
  };
  EXPECT_EQ(ask("weir.example", "https://weir.example"), 200u);
  EXPECT_EQ(ask("weir.example:443", "https://weir.example"), 200u);
  EXPECT_EQ(ask("127.0.0.1:8265", "https://weir.example"), 200u) << "a proxy that puts its own Host";
  EXPECT_EQ(ask("127.0.0.1:8265", "http://127.0.0.1:8265"), 200u);
  EXPECT_EQ(ask("weir.example:80", "https://weir.example"), 421u);
  EXPECT_EQ(ask("evil.example", "https://weir.example"), 421u);
  EXPECT_EQ(ask("weir.example", "https://evil.example"), 403u);
  EXPECT_EQ(ask("weir.example", "https://weir.example:8443"), 403u);
}

TEST(PublicUrlTest, IsASchemeANameAndPerhapsAPort) {
  EXPECT_EQ(PublicUrl::parse("https://weir.example")->origin(), "https://weir.example");
  EXPECT_EQ(PublicUrl::parse("HTTPS://WEIR.example:443/")->origin(), "https://weir.example");
  EXPECT_EQ(PublicUrl::parse("https://weir.example:8443")->origin(), "https://weir.example:8443");
  EXPECT_EQ(PublicUrl::parse("http://[2001:db8::1]:80")->origin(), "http://[2001:db8::1]");
  for (const char* bad :
       {"", "weir.example", "ftp://weir.example", "https://", "https://weir.example/path", "https://user@weir.example",
        "https://weir.example:", "https://weir.example:x", "https://weir.example?x", "https://we ir.example"})
    EXPECT_FALSE(PublicUrl::parse(bad)) << bad;
}

TEST(CheckListen, BeyondLoopbackOnlyWhenToldTo) {
  EXPECT_TRUE(check_listen("127.0.0.1:8265", false));
  EXPECT_TRUE(check_listen("[::1]:0", false));
  EXPECT_EQ(check_listen("localhost:1", false)->host, "127.0.0.1");
  const auto refused = check_listen("0.0.0.0:8265", false);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().context.find("--insecure"), std::string::npos);
  EXPECT_NE(refused.error().context.find("token"), std::string::npos);
  const auto for_nodes = check_listen("0.0.0.0:6380", false, Listener::control);
  ASSERT_FALSE(for_nodes);
  EXPECT_NE(for_nodes.error().context.find("--insecure"), std::string::npos);
  EXPECT_EQ(for_nodes.error().context.find("token"), std::string::npos) << "nodes do not send it";
  EXPECT_FALSE(check_listen("0.0.0.0:8265", true)->loopback);
  for (const char* address : {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", "host.example:1", "127.0.0.1:x"})
    EXPECT_FALSE(check_listen(address, true)) << address;
}

TEST(MetricText, CsvQuotesAndRoundTrips) {
  MetricText writer(MetricFormat::csv, "j,1", cluster::MetricAxis::step);
  std::string csv;
  writer.add(csv, "lo\"ss", 2, std::vector<cluster::MetricBucket>{{1, 0.1, 0.25, 0.1}});
  writer.add(csv, "a", std::nullopt, std::vector<cluster::MetricBucket>{{1e300, -1, 2, 3}});
  writer.end(csv);
  EXPECT_EQ(csv,
            "job,name,worker,x,min,max,last\r\n\"j,1\",\"lo\"\"ss\",2,1,0.1,0.25,0.1\r\n"
            "\"j,1\",a,,1e+300,-1,2,3\r\n");
}

}  // namespace
}  // namespace weir::api
