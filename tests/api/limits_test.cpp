// What hostile or slow clients meet.
#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "tests/api/fixture.hpp"

namespace weir::api {
namespace {

using namespace std::chrono_literals;

class LimitsTest : public ServerTest {
 protected:
  /// The bytes earn this status, and the server closes: it does not guess where the next request begins.
  void expect_refused(const std::string& raw, unsigned expected) {
    Wire wire(port());
    wire.send_what_is_taken(raw);
    const auto answer = wire.answer();
    expect_problem(answer, expected);
    EXPECT_FALSE(answer.keep_alive()) << raw.substr(0, 200);
    EXPECT_TRUE(answer.keep_alive() || wire.closed()) << raw.substr(0, 200);
  }

  struct Answered {
    std::unique_ptr<Wire> wire;
    Answer answer;
  };

  /// Connects and sends these bytes until they are answered. A short limit also runs before they are sent, which a busy
  /// machine can delay beyond it: then the server has closed the connection.
  Answered send_until_answered(const std::string& bytes) {
    for (int connection = 0; connection < 100; ++connection) {
      auto wire = std::make_unique<Wire>(port());
      wire->send_what_is_taken(bytes);
      boost::system::error_code ec;
      auto answer = wire->answer(false, ec);
      if (!ec) return {std::move(wire), std::move(answer)};
    }
    throw std::runtime_error("the server answers none of 100 connections");
  }

  /// A connection over which the token has been proven.
  std::unique_ptr<Wire> client() {
    auto [wire, answer] = send_until_answered(text("GET", "/api/v1/jobs"));
    EXPECT_EQ(answer.result_int(), 200u);
    return std::move(wire);
  }

  std::string health() { return "GET /healthz HTTP/1.1\r\nHost: " + host() + "\r\n"; }
  std::string post(const std::string& headers) {
    return text("POST", "/api/v1/jobs", "Content-Type: application/json\r\n" + headers);
  }
};

TEST_F(LimitsTest, LargeHeaderIs431) {
  expect_refused(health() + "X: " + std::string(20'000, 'a') + "\r\n\r\n", 431);
  expect_refused("GET /" + std::string(20'000, 'a'), 431);
  expect_refused("GET /" + std::string(5'000, 'a') + " HTTP/1.1\r\nHost: " + host() + "\r\n\r\n", 414);
}

TEST_F(LimitsTest, LargeBodyIs413ByLengthAndByChunks) {
  expect_refused(post("Content-Length: 1048577\r\n"), 413);
  expect_refused(post("Content-Length: 18446744073709551615\r\n"), 413);
  std::string chunks;
  const std::string chunk = "10000\r\n" + std::string(65536, ' ') + "\r\n";
  for (int i = 0; i < 20; ++i) chunks += chunk;
  expect_refused(post("Transfer-Encoding: chunked\r\n") + chunks, 413);
  expect_refused(post("Transfer-Encoding: chunked\r\n") + "ffffffffffffffff\r\n", 413);
}

TEST_F(LimitsTest, BodyAtTheLimitIsRead) {
  // Not valid JSON, but read to its end: 400 and not 413.
  EXPECT_EQ(post_json("/api/v1/jobs", std::string(1 << 20, ' ')).result_int(), 400u);
}

TEST_F(LimitsTest, ChunkedBodyIsRead) {
  Wire wire(port());
  wire.send(post("Transfer-Encoding: chunked\r\n") + "6\r\n{\"mode\r\n6\r\nl\":{}}\r\n0\r\n\r\n");
  EXPECT_EQ(wire.answer().result_int(), 201u);
  wire.send(text("GET", "/healthz"));
  EXPECT_EQ(wire.answer().result_int(), 200u);
}

TEST_F(LimitsTest, AmbiguousLengthsAreRefused) {
  expect_refused(post("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n", 400);
  expect_refused(post("Transfer-Encoding: chunked\r\nContent-Length: 2\r\n") + "0\r\n\r\n", 400);
  expect_refused(post("Content-Length: 2\r\nContent-Length: 3\r\n") + "{}", 400);
  expect_refused(post("Content-Length: 2\r\nContent-Length: 2\r\n") + "{}", 400);
  expect_refused(post("Content-Length: +2\r\n") + "{}", 400);
  expect_refused(post("Content-Length: 2, 2\r\n") + "{}", 400);
  expect_refused(post("Transfer-Encoding: xchunked\r\n") + "0\r\n\r\n", 501);
  expect_refused(post("Transfer-Encoding: gzip, chunked\r\n") + "0\r\n\r\n", 501);
  expect_refused(post("Transfer-Encoding : chunked\r\n") + "0\r\n\r\n", 400);
  expect_refused(health() + "A: b\r\n c\r\n\r\n", 400);
  expect_refused("GET /healthz HTTP/1.1\nHost: " + host() + "\r\n\r\n", 400);
  expect_refused("GET /healthz HTTP/1.1\r\nHost: " + host() + "\r\nHost: evil\r\n\r\n", 400);
  expect_refused(post("Transfer-Encoding: chunked\r\n") + "zz\r\n{}\r\n0\r\n\r\n", 400);
}

TEST_F(LimitsTest, WhatIsNotHttpIsRefused) {
  expect_refused("hello\r\n\r\n", 400);
  expect_refused(std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + "\r\n\r\n", 400);
  expect_refused("GET /healthz HTTP/2.0\r\nHost: " + host() + "\r\n\r\n", 505);
  expect_refused("GET  /healthz HTTP/1.1\r\nHost: " + host() + "\r\n\r\n", 400);
}

TEST_F(LimitsTest, BadTargetsAre400) {
  for (const char* target : {"/%zz", "/%00", "/a/../b", "/%2e%2e/%2e%2e/etc/passwd", "/..%5c..%5cetc",
                             "/api/v1/jobs?q=%ff", "http://evil.example/healthz"})
    EXPECT_EQ(get(target).result_int(), 400u) << target;
}

TEST_F(LimitsTest, DeepJsonIs400) {
  expect_problem(post_json("/api/v1/jobs", std::string(100'000, '[')), 400);
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  expect_problem(post_json("/api/v1/jobs", objects), 400);
}

TEST_F(LimitsTest, OtherMediaTypesAre415) {
  expect_problem(request("POST", "/api/v1/jobs", "", "{}"), 415);
  expect_problem(request("POST", "/api/v1/jobs", "Content-Type: text/plain\r\n", "{}"), 415);
  expect_problem(request("POST", "/api/v1/jobs", "Content-Type: application/jsonp\r\n", "{}"), 415);
  expect_problem(post_json("/api/v1/jobs", "{}", "Content-Encoding: gzip\r\n"), 415);
  EXPECT_EQ(request("POST", "/api/v1/jobs", "Content-Type: Application/JSON; charset=utf-8\r\n", "{\"model\":{}}")
                .result_int(),
            201u);
}

TEST_F(LimitsTest, ExpectContinueIsAnsweredBeforeTheBody) {
  Wire wire(port());
  wire.send(post("Content-Length: 12\r\nExpect: 100-continue\r\n"));
  EXPECT_EQ(wire.until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  wire.send("{\"model\":{}}");
  EXPECT_EQ(wire.answer().result_int(), 201u);
}

TEST_F(LimitsTest, RefusalComesBeforeTheBody) {
  Wire wire(port());
  wire.send("POST /api/v1/jobs HTTP/1.1\r\nHost: " + host() + "\r\nContent-Length: 1000\r\n\r\n");
  EXPECT_EQ(wire.answer().result_int(), 401u);
}

TEST_F(LimitsTest, BodiesOfStrangersAreNotReadWhereNoneIsTaken) {
  options.limits.body_deadline = std::chrono::hours(1);  // nothing else ends the wait for a body
  expect_refused(health() + "Content-Length: 1048576\r\n\r\n{", 413);
  expect_refused(health() + "Transfer-Encoding: chunked\r\n\r\n1\r\n", 413);
  Wire wire(port());
  wire.send(health() + "Content-Length: 0\r\n\r\n" + text("GET", "/healthz", "", "{}"));
  EXPECT_EQ(wire.answer().result_int(), 200u);
  EXPECT_EQ(wire.answer().result_int(), 200u) << "who has the token may send one";
}

TEST_F(LimitsTest, StrangersDoNotWriteToTheLog) {
  std::ostringstream log;
  const auto usual = spdlog::default_logger();
  auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(log);
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", std::move(sink)));
  const std::string host_line = " HTTP/1.1\r\nHost: " + host() + "\r\n\r\n";
  expect_refused("hello\r\n\r\n", 400);
  expect_refused("GET /healthz HTTP/2.0\r\n\r\n", 505);
  Wire wire(port());
  wire.send("DELETE /api/v1/jobs/j1" + host_line);
  EXPECT_EQ(wire.answer().result_int(), 401u);
  const auto name = "/api/v1/jobs/" + std::string(1000, 'x');
  EXPECT_EQ(request("DELETE", name).result_int(), 404u);
  stop();
  spdlog::set_default_logger(usual);
  const auto written = log.str();
  EXPECT_EQ(std::count(written.begin(), written.end(), '\n'), 1) << written;
  EXPECT_NE(written.find(" DELETE " + name.substr(0, 200) + " 404 "), std::string::npos) << written;
}

TEST_F(LimitsTest, Http10HasNeitherChunksNorInterimAnswers) {
  const std::string begin = "POST /api/v1/jobs HTTP/1.0\r\nHost: " + host() + "\r\nAuthorization: Bearer " +
                            test_token + "\r\nContent-Type: application/json\r\n";
  expect_refused(begin + "Transfer-Encoding: chunked\r\n\r\nc\r\n{\"model\":{}}\r\n0\r\n\r\n", 400);
  Wire wire(port());
  wire.send(begin + "Content-Length: 12\r\nExpect: 100-continue\r\n\r\n{\"model\":{}}");
  EXPECT_NE(wire.until("\r\n").find(" 201 "), std::string::npos);
}

TEST_F(LimitsTest, ConditionsOfAChangeAreNotIgnored) {
  add_job("j1", cluster::JobState::stopped);
  for (const char* condition : {"If-Match: \"a\"\r\n", "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n"}) {
    expect_problem(request("DELETE", "/api/v1/jobs/j1", condition), 412);
    EXPECT_EQ(get("/api/v1/jobs/j1", condition).result_int(), 200u);
  }
}

TEST_F(LimitsTest, PipelinedRequestsAreAnsweredInOrder) {
  Wire wire(port());
  wire.send(text("GET", "/healthz") + text("GET", "/nothing%25") + text("GET", "/api/v1/version"));
  EXPECT_EQ(wire.answer().result_int(), 200u);
  EXPECT_EQ(wire.answer().result_int(), 404u);
  EXPECT_EQ(parsed(wire.answer())["version"], "1.2.3");
}

TEST_F(LimitsTest, SlowHeaderIs408) {
  options.limits.header_deadline = 500ms;
  options.limits.stranger_deadline = std::chrono::hours(1);
  const auto wire = client();
  wire->send("GET /healthz HT");
  EXPECT_EQ(wire->answer().result_int(), 408u);
  EXPECT_TRUE(wire->closed());
}

TEST_F(LimitsTest, SlowBodyIs408) {
  options.limits.body_deadline = 50ms;
  expect_refused(post("Content-Length: 10\r\n") + "{", 408);
}

TEST_F(LimitsTest, IdleConnectionIsClosed) {
  options.limits.idle_deadline = 500ms;
  options.limits.stranger_deadline = std::chrono::hours(1);
  EXPECT_TRUE(client()->closed());
}

TEST_F(LimitsTest, ALargeAnswerOverASlowButSteadyLineIsSentWhole) {
  constexpr std::size_t body_bytes = 16 << 20;  // far more than what kernels hold of a connection
  options.limits.write_deadline = 1s;
  add_job("large");
  head.jobs_by_id["large"].reason.assign(body_bytes, 'x');
  std::size_t received = 0;
  // A busy machine may hold up a piece for the whole limit. All of it takes longer than the limit each time.
  for (int connection = 0; connection < 20 && received <= body_bytes; ++connection) {
    Wire wire(port());
    wire.shrink_receive_buffer(256 << 10);
    wire.send(text("GET", "/api/v1/jobs/large", "Connection: close\r\n"));
    received = wire.read_slowly(256 << 10, 25ms);  // each piece takes a fortieth of the limit
  }
  EXPECT_GT(received, body_bytes);
}

TEST_F(LimitsTest, FullServerStillTellsItsHealth) {
  options.limits.clients_max = 2;
  Wire first(port());
  first.send(text("GET", "/healthz"));
  EXPECT_EQ(first.answer().result_int(), 200u);
  Wire second(port());
  second.send(text("GET", "/healthz"));
  EXPECT_EQ(second.answer().result_int(), 200u);
  Wire third(port());
  third.send(text("GET", "/api/v1/jobs"));
  const auto refused = third.answer();
  expect_problem(refused, 503);
  EXPECT_EQ(refused[http::field::retry_after], "1");
  EXPECT_TRUE(third.closed());
  EXPECT_EQ(get("/healthz").result_int(), 200u);
  first.send(text("GET", "/api/v1/jobs"));
  EXPECT_EQ(first.answer().result_int(), 200u);
}

/// Strangers who hold connections open in one way or another.
class CrowdTest : public LimitsTest {
 protected:
  CrowdTest() { options.limits.strangers_max = 8; }

  /// Five times as many strangers as there are places, each having sent `bytes`: the oldest have to go, and everybody
  /// else is answered all the while.
  void expect_answers_among(const std::string& bytes) {
    const auto known = client();
    std::vector<std::unique_ptr<Wire>> crowd;
    for (int i = 0; i < 40; ++i) {
      crowd.push_back(std::make_unique<Wire>(port()));
      crowd.back()->send_what_is_taken(bytes);
      Wire visitor(port());
      visitor.send(health() + "\r\n");
      EXPECT_EQ(visitor.answer().result_int(), 200u) << i;
      EXPECT_EQ(get("/api/v1/jobs").result_int(), 200u) << i;
    }
    for (std::size_t i = 0; i < 32; ++i) EXPECT_TRUE(crowd[i]->closed()) << i;
    known->send(text("GET", "/api/v1/jobs"));
    EXPECT_EQ(known->answer().result_int(), 200u) << "a client lost its place to strangers";
  }
};

TEST_F(CrowdTest, SilentStrangersCostNobodyAnAnswer) { expect_answers_among(""); }
TEST_F(CrowdTest, SlowHeadersCostNobodyAnAnswer) { expect_answers_among("GET /healthz HTTP/1.1\r\nHost: 127."); }

TEST_F(CrowdTest, StrangersConnectionsAreNotKeptWhereTheyAreMany) {
  std::vector<std::unique_ptr<Wire>> visitors;
  for (int i = 0; i < 5; ++i) {
    visitors.push_back(std::make_unique<Wire>(port()));
    visitors.back()->send(health() + "\r\n");
    EXPECT_EQ(visitors.back()->answer().keep_alive(), i < 4) << i;
  }
}

TEST_F(LimitsTest, StrangerHasAFewSecondsForItsHeaderAndAClientMore) {
  options.limits.stranger_deadline = 1500ms;
  options.limits.header_deadline = std::chrono::hours(1);
  options.limits.idle_deadline = std::chrono::hours(1);
  const auto known = client();
  Wire silent(port());
  EXPECT_TRUE(silent.closed());
  const auto [slow, refusal] = send_until_answered("GET /healthz HT");
  expect_problem(refusal, 408);
  EXPECT_TRUE(slow->closed());
  // By now the client has waited longer than a stranger may.
  known->send(text("GET", "/api/v1/jobs"));
  EXPECT_EQ(known->answer().result_int(), 200u);
}

}  // namespace
}  // namespace weir::api
