#include "api/target.hpp"

#include <gtest/gtest.h>

namespace weir::api {
namespace {

TEST(Target, IsTakenApartAndDecodedOnce) {
  const auto target = parse_target("/api/v1/jobs/a%20b?q=x%2By+z&limit=5&flag");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->segments, (std::vector<std::string>{"api", "v1", "jobs", "a b"}));
  EXPECT_EQ(target->find("q"), "x+y z");
  EXPECT_EQ(target->find("flag"), "");
  EXPECT_EQ(target->find("nothing"), std::nullopt);
  EXPECT_EQ(target->integer("limit", 1, 1, 10).value(), 5);
  EXPECT_EQ(parse_target("/%252e")->segments.front(), "%2e");
}

TEST(Target, OnlyTheRootEndsWithASlash) {
  EXPECT_TRUE(parse_target("/")->segments.empty());
  EXPECT_TRUE(parse_target("/?a=b")->segments.empty());
  EXPECT_FALSE(parse_target("/api/v1/sessions/"));
  EXPECT_FALSE(parse_target("/api/v1/sessions/?a=b"));
  EXPECT_FALSE(parse_target("/%61pi/v1/sessions/")) << "the router decodes it, too";
  EXPECT_EQ(parse_target("/jobs/?a=b")->segments, std::vector<std::string>{"jobs"}) << "a page, which people type";
}

TEST(Target, RefusesWhatIsNotAPlainPath) {
  for (const char* raw : {"",          "*",    "http://host/", "a",     "/a b",   "/a\x01",         "/a#b",
                          "/%",        "/%2",  "/%zz",         "/%00",  "/%ff",   "/a/../b",        "/a/%2e%2e/b",
                          "/a/%2E./b", "/./a", "//a",          "/a//b", "/a%5cb", "/..%2f..%2fetc", "/\xc3\xa4"})
    EXPECT_FALSE(parse_target(raw)) << raw;
  EXPECT_FALSE(parse_target("/?a=%f"));
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "/a";
  EXPECT_FALSE(parse_target(deep));
}

TEST(Target, NumbersAreCheckedAgainstTheirRange) {
  const auto target = parse_target("/?a=0&b=x&c=1e3&d=nan&e=99999999999999999999&f=5x");
  ASSERT_TRUE(target);
  EXPECT_FALSE(target->integer("a", 1, 1, 10));
  EXPECT_FALSE(target->integer("b", 1, 1, 10));
  EXPECT_FALSE(target->integer("e", 1, 1, 10));
  EXPECT_FALSE(target->integer("f", 1, 1, 10));
  EXPECT_EQ(target->integer("missing", 7, 1, 10).value(), 7);
  EXPECT_EQ(target->number("c").value(), 1000.0);
  EXPECT_FALSE(target->number("d"));
  EXPECT_EQ(target->number("missing").value(), std::nullopt);
}

TEST(Target, EncodingAndDecodingAgree) {
  const std::string text = "a/b ?&%\xc3\xa4";
  EXPECT_EQ(percent_decode(percent_encode(text)).value(), text);
}

}  // namespace
}  // namespace weir::api
