// What `weir` believes when it speaks https.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/errc.hpp"
#include "cli/exit_code.hpp"
#include "cli/http_client.hpp"
#include "cli/place.hpp"
#include "tests/cli/fake_tls.hpp"

namespace weir::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace weir::cli::testing;

class TlsTest : public ::testing::Test {
 protected:
  TlsTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "weir-tls-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    cacert_ = folder_ / "ca.pem";
    std::ofstream(cacert_) << authority_.certificate_pem();
  }
  ~TlsTest() override { std::filesystem::remove_all(folder_); }

  /// What a request with a token gives, and that nothing was sent if it was refused.
  Result<HttpAnswer> ask(const Identity& server, const std::filesystem::path& cacert,
                         const std::string& host = "127.0.0.1") {
    FakeTls head(server, answer(200, R"({"jobs": []})"));
    auto got = HttpClient("https://" + host + ":" + head.port(), "secret", cacert).request({.target = "/api/v1/jobs"});
    if (got) {
      EXPECT_THAT(head.requests(), ElementsAre(HasSubstr("Authorization: Bearer secret\r\n")));
    } else {
      EXPECT_THAT(head.requests(), IsEmpty()) << "the token went to somebody who has not proven to be the head";
    }
    return got;
  }
  void expect_distrust(const Result<HttpAnswer>& got, const std::string& why) {
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, Errc::unauthenticated);
    EXPECT_EQ(exit_code(got.error()), 4);
    EXPECT_THAT(got.error().context, HasSubstr(why));
  }

  Identity authority_ = Identity::authority("authority of this test");
  std::filesystem::path folder_;
  std::filesystem::path cacert_;
};

TEST_F(TlsTest, SpeaksToAServerWhoseAuthorityItKnows) {
  const auto got = ask(Identity::server(authority_, "IP:127.0.0.1"), cacert_);
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_EQ(got->body, R"({"jobs": []})");
  EXPECT_TRUE(ask(Identity::server(authority_, "DNS:localhost"), cacert_, "localhost"));
}

TEST_F(TlsTest, UnknownAuthoritiesAreNotBelieved) {
  const auto got = ask(Identity::server(authority_, "IP:127.0.0.1"), "");
  expect_distrust(got, "--cacert FILE");
  const auto other = Identity::authority("authority of this test");  // the same name, another key
  expect_distrust(ask(Identity::server(other, "IP:127.0.0.1"), cacert_), "certificate");
}

TEST_F(TlsTest, CertificatesOfOthersAreNotBelieved) {
  expect_distrust(ask(Identity::server(authority_, "IP:127.0.0.2"), cacert_), "IP address mismatch");
  expect_distrust(ask(Identity::server(authority_, "DNS:weir.example"), cacert_, "localhost"), "hostname mismatch");
  expect_distrust(ask(Identity::server(authority_, "DNS:weir.example"), cacert_), "IP address mismatch");
}

TEST_F(TlsTest, ExpiredCertificatesAreNotBelieved) {
  expect_distrust(ask(Identity::server(authority_, "IP:127.0.0.1", std::chrono::seconds(-1)), cacert_), "expired");
}

TEST_F(TlsTest, StreamsComeOverTlsToo) {
  FakeTls head(Identity::server(authority_, "IP:127.0.0.1"), event_stream("id: 1\nevent: job\ndata: {}\n\n"));
  std::vector<std::string> events;
  const HttpClient::StreamHandlers handlers{.opened = {},
                                            .event = [&](const ServerSentEvent& event) -> Result<bool> {
                                              events.push_back(event.name);
                                              return false;
                                            },
                                            .broken = {}};
  const HttpClient client("https://127.0.0.1:" + head.port(), "secret", cacert_);
  EXPECT_TRUE(client.stream("/api/v1/stream?topics=jobs", handlers));
  EXPECT_THAT(events, ElementsAre("job"));
  EXPECT_EQ(HttpClient("https://127.0.0.1:" + head.port(), "secret").stream("/", handlers).error().code,
            Errc::unauthenticated);
}

TEST_F(TlsTest, WhoDoesNotSpeakTlsIsNoHead) {
  boost::asio::io_context io;
  boost::asio::ip::tcp::acceptor plain(io, {boost::asio::ip::address_v4::loopback(), 0});
  const std::jthread server([&plain] {
    auto socket = plain.accept();
    boost::asio::write(socket, boost::asio::buffer(std::string("HTTP/1.1 400 Bad Request\r\n\r\n")));
  });
  const auto port = std::to_string(plain.local_endpoint().port());
  const auto got = HttpClient("https://127.0.0.1:" + port, "secret", cacert_).request({});
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Errc::peer_lost);
}

TEST_F(TlsTest, FileWithoutCertificatesIsSaidToBeOne) {
  const auto file = folder_ / "empty.pem";
  std::ofstream(file) << "nothing";
  for (const auto& bad : {file, folder_ / "missing.pem"}) {
    const auto got = HttpClient("https://127.0.0.1:1", "secret", bad).request({});
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, Errc::io);
    EXPECT_THAT(got.error().context, HasSubstr(bad.string()));
  }
}

TEST(PlaceTest, Addresses) {
  EXPECT_EQ(Place::parse("127.0.0.1:8265")->authority(), "127.0.0.1:8265");
  EXPECT_EQ(Place::parse("http://localhost:8265/")->authority(), "localhost:8265");
  EXPECT_EQ(Place::parse("[::1]:8265")->authority(), "[::1]:8265");
  EXPECT_EQ(Place::parse("[::1]:8265")->host, "::1");
  EXPECT_EQ(Place::parse("https://weir.example")->authority(), "weir.example");
  EXPECT_EQ(Place::parse("https://weir.example")->port, "443");
  EXPECT_EQ(Place::parse("https://weir.example:8443/")->authority(), "weir.example:8443");
  EXPECT_TRUE(Place::parse("https://weir.example")->tls);
  for (const char* bad : {"", "localhost", "http://localhost", ":1", "a:b", "::1:8265", "[::1", "[::1]x", "https://",
                          "https://a/b", "https://u@a", "ftp://a:1"})
    EXPECT_FALSE(Place::parse(bad)) << bad;
}

}  // namespace
}  // namespace weir::cli
