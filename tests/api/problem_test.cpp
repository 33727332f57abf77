#include "api/problem.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/message.hpp"
#include "base/errc.hpp"

namespace weir::api {
namespace {

TEST(Json, DepthIsLimitedBeforeAnythingRecurses) {
  const std::string deep(100'000, '[');
  EXPECT_EQ(parse_json(deep).error().code, Errc::malformed);
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_EQ(parse_json(objects).error().code, Errc::malformed);
  EXPECT_TRUE(parse_json(std::string(60, '[') + std::string(60, ']')));
  EXPECT_TRUE(parse_json("\"" + std::string(1000, '[') + "\\\"" + std::string(1000, '{') + "\""));
}

TEST(Json, RefusesWhatIsNotJson) {
  for (const char* text : {"", "{", "{\"a\":1,}", "nul", "{\"a\":1} x", "\"\xff\"", "'a'", "{\"a\":1,\"a\":2}"})
    EXPECT_FALSE(parse_json(text)) << text;
  EXPECT_TRUE(parse_json("{\"a\":{\"b\":1},\"c\":{\"b\":1}}"));
}

TEST(Json, ABodyOfManyObjectsTakesTheTimeOfItsBytes) {
  std::string text = "{\"model\":[{}";
  for (int i = 1; i < 1'500'000; ++i) text += ",{}";
  EXPECT_EQ(parse_json(text + "]}").value().at("model").size(), 1'500'000u);
}

TEST(Problem, StatusFollowsTheKindOfError) {
  EXPECT_EQ(problem(Error{Errc::not_found}).status, 404u);
  EXPECT_EQ(problem(Error{Errc::conflict}).status, 409u);
  EXPECT_EQ(problem(Error{Errc::invalid_argument}).status, 422u);
  EXPECT_EQ(problem(Error{Errc::malformed}).status, 400u);
  EXPECT_EQ(problem(Error{Errc::exhausted}).status, 503u);
  EXPECT_EQ(problem(Error{boost::system::errc::make_error_code(boost::system::errc::io_error)}).status, 500u);
}

TEST(Problem, BodySaysWhereAndWhichRequest) {
  Request request;
  request.id = "r1";
  request.target.path = "/api/v1/jobs";
  const auto reply = problem(422, "no", {{"/model/name", "unknown", "lenet"}, {"", "no job"}});
  const auto body = nlohmann::json::parse(problem_body(reply.status, *reply.problem, request));
  EXPECT_EQ(body["request_id"], "r1");
  EXPECT_EQ(body["instance"], "/api/v1/jobs");
  EXPECT_EQ(body["errors"][0]["pointer"], "/model/name");
  EXPECT_EQ(body["errors"][0]["suggestion"], "lenet");
  EXPECT_FALSE(body["errors"][1].contains("suggestion"));
  EXPECT_EQ(body["title"], "Unprocessable Content");
}

TEST(Framing, RefusesWhatTwoReadersMayReadDifferently) {
  EXPECT_TRUE(check_framing("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
  for (const char* raw :
       {"GET / HTTP/1.1\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\n\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET / HTTP/1.1\r\n Host: a\r\n\r\n", "GET / HTTP/1.1\r\nHost\r\n\r\n", "GET / HTTP/1.1\r\n: a\r\n\r\n",
        "\r\nGET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nA: \x01\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n",
        "GET / HTTP/1.1\r\nA: b\rC: d\r\n\r\n", ""})
    EXPECT_FALSE(check_framing(raw)) << raw;
}

}  // namespace
}  // namespace weir::api
