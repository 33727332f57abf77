#include "api/sessions.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/errc.hpp"

namespace weir::api {
namespace {

class SessionsTest : public ::testing::Test {
 protected:
  SessionsTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "weir-sessions-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~SessionsTest() override { std::filesystem::remove_all(folder_); }

  Sessions make(const std::string& token = "secret") {
    return Sessions({.token = token, .file = file(), .sessions_max = 3, .now = [this] { return now_; }});
  }
  std::filesystem::path file() const { return folder_ / "sessions.json"; }
  void write(const std::string& text) { std::ofstream(file()) << text; }

  std::filesystem::path folder_;
  Session::Time now_{std::chrono::hours(500'000)};
};

TEST_F(SessionsTest, TheyOutliveARestartAndEndWithTheToken) {
  std::string secret;
  {
    auto sessions = make();
    secret = sessions.begin("10.0.0.1", "browser");
    ASSERT_TRUE(sessions.save());
  }
  auto again = make();
  ASSERT_TRUE(again.load());
  EXPECT_EQ(again.find(secret), again.list().at(0).id);
  EXPECT_EQ(again.list().at(0).created_at, now_);
  EXPECT_EQ(again.list().at(0).expires_at, now_ + std::chrono::hours(24 * 30));
  auto other_token = make("another");
  ASSERT_TRUE(other_token.load());
  EXPECT_FALSE(other_token.find(secret));
  EXPECT_TRUE(other_token.list().empty()) << "nobody can use it";
}

TEST_F(SessionsTest, TheFileIsPrivateAndHoldsNoSecret) {
  auto sessions = make();
  const auto secret = sessions.begin("10.0.0.1", "browser");
  ASSERT_TRUE(sessions.save());
  struct stat status {};
  ASSERT_EQ(::stat(file().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  std::ifstream in(file());
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  EXPECT_NE(text.find("\"browser\""), std::string::npos);
  EXPECT_EQ(text.find(secret), std::string::npos);
  EXPECT_EQ(text.find(secret.substr(16)), std::string::npos);
}

TEST_F(SessionsTest, RevokedStaysRevokedAfterARestart) {
  auto sessions = make();
  const auto secret = sessions.begin("", "");
  ASSERT_TRUE(sessions.save());
  EXPECT_TRUE(sessions.revoke(*sessions.find(secret)).value());
  EXPECT_FALSE(sessions.find(secret));
  auto again = make();
  ASSERT_TRUE(again.load());
  EXPECT_FALSE(again.find(secret));
}

TEST_F(SessionsTest, WhatCannotBeTakenOutOfTheFileGoesOn) {
  auto sessions = make();
  const auto secret = sessions.begin("", "");
  ASSERT_TRUE(sessions.save());
  const auto id = sessions.find(secret).value();
  const auto aside = folder_.string() + "-aside";
  std::filesystem::rename(folder_, aside);
  EXPECT_FALSE(sessions.revoke(id));
  EXPECT_FALSE(sessions.revoke_all());
  EXPECT_TRUE(sessions.find(secret));
  std::filesystem::rename(aside, folder_);
  EXPECT_EQ(sessions.revoke_all().value(), 1u);
  EXPECT_FALSE(sessions.revoke(id).value()) << "it has ended";
}

TEST_F(SessionsTest, OneTooManyEndsTheOneThatWasNotUsedForLongest) {
  auto sessions = make();
  const auto later = [this] { now_ += std::chrono::seconds(1); };
  const auto first = sessions.begin("", "");
  later();
  const auto second = sessions.begin("", "");
  later();
  const auto third = sessions.begin("", "");
  later();
  const auto stream = sessions.find(first).value();
  EXPECT_TRUE(sessions.find(third));
  later();
  EXPECT_TRUE(sessions.holds(stream));
  sessions.begin("", "");
  EXPECT_TRUE(sessions.find(first));
  EXPECT_FALSE(sessions.find(second)) << "the one that has not been used since it began";
  EXPECT_TRUE(sessions.find(third));
  EXPECT_EQ(sessions.list().size(), 3u);
}

TEST_F(SessionsTest, ThousandsOfBrowsersStayLoggedInAfterARestart) {
  const Sessions::Options options{.token = "secret", .file = file(), .now = [this] { return now_; }};
  Sessions sessions(options);
  std::vector<std::string> secrets;
  const std::string agent(200, '\x01');  // each byte takes five in the file
  for (int i = 0; i < 4096; ++i) secrets.push_back(sessions.begin("2001:db8:1111:2222:3333:4444:5555:6666", agent));
  EXPECT_EQ(sessions.list().size(), 4096u);
  ASSERT_TRUE(sessions.save());
  Sessions again(options);
  ASSERT_TRUE(again.load());
  for (const auto& secret : {secrets.front(), secrets.back()}) EXPECT_TRUE(again.find(secret));
  EXPECT_EQ(again.list().size(), 4096u);
}

TEST_F(SessionsTest, WhatABrowserCallsItselfIsTextOfBoundedLength) {
  auto sessions = make();
  sessions.begin("", "a\x1b[2Jb\n" + std::string(1000, 'x'));
  const auto agent = sessions.list().at(0).agent;
  EXPECT_TRUE(agent.starts_with(R"(a\x1b[2Jb\x0axxx)")) << agent;
  EXPECT_EQ(agent.size(), 206u) << "200 bytes, two of which are written in four characters";
}

TEST_F(SessionsTest, ForeignFilesAreRefused) {
  auto sessions = make();
  EXPECT_TRUE(sessions.load()) << "no file is no session";
  const std::string texts = R"("mac": "", "token": "", "address": "", "agent": "", "created_at": 1, )";
  const std::string good = R"({"id": "0123456789abcdef", )" + texts;
  for (const std::string& text :
       {std::string("{"), std::string("{}"), std::string("[1]"), std::string("[{}]"),
        "[" + good + R"("expires_at": "never"}])", "[" + good + R"("expires_at": -1}])",
        "[" + good + R"("expires_at": 9223372036854775807}])", "[" + good + R"("expires_at": 18446744073709551615}])",
        R"([{"id": "x", )" + texts + R"("expires_at": 2}])"}) {
    write(text);
    const auto loaded = sessions.load();
    ASSERT_FALSE(loaded) << text;
    EXPECT_EQ(loaded.error().code, Errc::malformed) << text;
  }
}

}  // namespace
}  // namespace weir::api
