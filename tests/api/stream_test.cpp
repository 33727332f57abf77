#include "tests/api/fixture.hpp"

namespace weir::api {
namespace {

using namespace std::chrono_literals;
using cluster::StreamKind;

class StreamTest : public ServerTest {
 protected:
  void publish(std::uint64_t sequence, StreamKind kind, const std::string& job, const std::string& data) {
    head.publish({sequence, kind, job, data});
  }

  /// Asks over HTTP/1.0, so that the body comes without chunks, and reads the header.
  std::unique_ptr<Wire> open(const std::string& query, const std::string& headers = "") {
    auto wire = std::make_unique<Wire>(port());
    wire->send("GET /api/v1/stream?" + query + " HTTP/1.0\r\nHost: " + host() + "\r\nAuthorization: Bearer " +
               test_token + "\r\n" + headers + "\r\n");
    const auto header = wire->until("\r\n\r\n");
    EXPECT_NE(header.find(" 200 "), std::string::npos) << header;
    EXPECT_NE(header.find("Content-Type: text/event-stream"), std::string::npos) << header;
    const auto begin = wire->until("\n\n");
    EXPECT_TRUE(begin.starts_with("retry: 1000\nid: ") && begin.ends_with("\nevent: beat\ndata: {}\n\n")) << begin;
    return wire;
  }

  static std::string job_event(int sequence) {
    return "id: " + std::to_string(sequence) + "\nevent: job\ndata: {\"n\":" + std::to_string(sequence) + "}\n\n";
  }
  void publish_jobs(int from, int to) {
    for (int i = from; i <= to; ++i)
      publish(static_cast<std::uint64_t>(i), StreamKind::job, "j1", "{\"n\":" + std::to_string(i) + "}");
  }
};

TEST_F(StreamTest, LiveItemsOfTheTopicsAskedFor) {
  const auto wire = open("topics=jobs");
  publish(1, StreamKind::node, "", "{}");
  publish_jobs(2, 3);
  EXPECT_EQ(wire->until("\n\n"), job_event(2));
  EXPECT_EQ(wire->until("\n\n"), job_event(3));
  publish(0, StreamKind::job, "j1", "{\"transient\":1}");
  EXPECT_EQ(wire->until("\n\n"), "event: job\ndata: {\"transient\":1}\n\n");
}

TEST_F(StreamTest, ResumesWithoutGapOrRepeat) {
  start();
  publish_jobs(1, 600);
  for (const bool header : {true, false}) {
    int place = 0;
    while (place < 600) {
      const std::string id = std::to_string(place);
      const auto wire =
          header ? open("topics=jobs", "Last-Event-ID: " + id + "\r\n") : open("topics=jobs&last_event_id=" + id);
      // The connection breaks after some of them; the next one goes on behind the last that came.
      for (int i = 0; i < 170 && place < 600; ++i) EXPECT_EQ(wire->until("\n\n"), job_event(++place));
    }
  }
  const auto wire = open("topics=jobs", "Last-Event-ID: 600\r\n");
  publish_jobs(601, 601);
  EXPECT_EQ(wire->until("\n\n"), job_event(601));
}

TEST_F(StreamTest, TooOldAPlaceIsReset) {
  head.oldest_kept = 50;
  start();
  publish_jobs(51, 51);
  const auto wire = open("topics=jobs", "Last-Event-ID: 7\r\n");
  EXPECT_EQ(wire->until("\n\n"), "id: 50\nevent: reset\ndata: {\"sequence\":50}\n\n");
  EXPECT_EQ(wire->until("\n\n"), job_event(51));
}

TEST_F(StreamTest, BeginsWithItsPlace) {
  start();
  publish_jobs(1, 3);
  on_head([] {});  // after which they are published
  Wire wire(port());
  wire.send(text("GET", "/api/v1/stream?topics=jobs"));
  wire.until("retry: 1000\nid: 3\nevent: beat\ndata: {}\n\n");
  Wire behind(port());
  behind.send(text("GET", "/api/v1/stream?topics=jobs&last_event_id=2"));
  behind.until("retry: 1000\nid: 2\nevent: beat\ndata: {}\n\n");
}

TEST_F(StreamTest, SilentStreamBeatsAndKeepsUpWithWhatItDidNotAskFor) {
  options.limits.heartbeat = 20ms;
  const auto wire = open("topics=cluster");
  EXPECT_EQ(wire->until("\n\n"), "id: 0\nevent: beat\ndata: {}\n\n");
  publish_jobs(1, 3);
  wire->until("id: 3\nevent: beat\ndata: {}\n\n");
}

TEST_F(StreamTest, AJobThatIsDeletedEndsItsStream) {
  add_job("j1");
  for (const std::string topics : {"topics=job:j1", "topics=logs:j1", "topics=job:j1,logs:j1"}) {
    const auto wire = open(topics + "&last_event_id=0");
    publish(1, StreamKind::job_removed, "j1", "{\"id\":\"j1\"}");
    EXPECT_EQ(wire->rest(), "id: 1\nevent: job_removed\ndata: {\"id\":\"j1\"}\n\n") << topics;
  }
}

TEST_F(StreamTest, TheEndOfAJobIsToldBeforeItsDeletion) {
  add_job("j1");
  start();
  publish(1, StreamKind::job_end, "j1", "{}");
  publish(2, StreamKind::job_removed, "j1", "{}");
  EXPECT_EQ(open("topics=job:j1,logs:j1&last_event_id=0")->rest(),
            "id: 1\nevent: job_end\ndata: {}\n\nid: 2\nevent: job_removed\ndata: {}\n\n");
}

TEST_F(StreamTest, EndsWithTheSessionThatAskedForIt) {
  options.limits.heartbeat = 20ms;
  const auto answer = request("POST", "/api/v1/session");
  const std::string set_cookie(answer[http::field::set_cookie]);
  const std::string cookie = "Cookie: " + set_cookie.substr(0, set_cookie.find(';')) + "\r\n";
  Wire wire(port());
  wire.send("GET /api/v1/stream?topics=jobs HTTP/1.0\r\nHost: " + host() + "\r\n" + cookie + "\r\n");
  EXPECT_NE(wire.until("\n\n").find(" 200 "), std::string::npos);
  publish_jobs(1, 1);
  EXPECT_NE(wire.until("\"n\":1}\n\n").find("event: job"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(request("DELETE", "/api/v1/sessions").body())["revoked"], 1);
  publish_jobs(2, 2);
  EXPECT_EQ(wire.rest().find("event: job"), std::string::npos) << "the stream outlived its session";
}

TEST_F(StreamTest, OneJobsStreamEndsWithItsTerminalRecord) {
  add_job("j1");
  const auto wire = open("topics=job:j1,logs:j1");
  on_head([&] {  // at once: the end is held back for a while only
    publish(1, StreamKind::log, "j1", "{\"text\":\"a\"}");
    publish(2, StreamKind::job_end, "j1", "{\"state\":\"SUCCEEDED\"}");
    publish(3, StreamKind::log, "j1", "{\"text\":\"last\"}");
  });
  std::string events = wire->rest();
  const auto last_log = events.find("\"last\"");
  const auto end = events.find("id: 3\nevent: job_end\ndata: {\"state\":\"SUCCEEDED\"}\n\n");
  ASSERT_NE(last_log, std::string::npos) << events;
  ASSERT_NE(end, std::string::npos) << events;
  EXPECT_LT(last_log, end) << "and the end has the place where the client is by then";
  EXPECT_TRUE(events.ends_with("{\"state\":\"SUCCEEDED\"}\n\n")) << events;
}

TEST_F(StreamTest, JobThatHadEndedIsToldAtOnce) {
  add_job("j1", cluster::JobState::failed);
  const auto events = open("topics=job:j1")->rest();
  EXPECT_NE(events.find("event: job_end\n"), std::string::npos) << events;
  EXPECT_NE(events.find("\"state\":\"FAILED\""), std::string::npos) << events;
  start();
  publish(1, StreamKind::job_end, "j1", "{\"state\":\"FAILED\"}");
  const auto replayed = open("topics=job:j1&last_event_id=0")->rest();
  EXPECT_NE(replayed.find("id: 1\nevent: job_end"), std::string::npos) << replayed;
  EXPECT_EQ(replayed.find("event: job_end"), replayed.rfind("event: job_end")) << "told twice";
}

TEST_F(StreamTest, StreamOfMoreThanOneJobGoesOn) {
  add_job("j1", cluster::JobState::failed);
  add_job("j2");
  const auto wire = open("topics=jobs,job:j1");
  publish(1, StreamKind::job_end, "j1", "{}");
  EXPECT_EQ(wire->until("\n\n"), "id: 1\nevent: job_end\ndata: {}\n\n");
  publish_jobs(2, 2);
  EXPECT_EQ(wire->until("\n\n"), job_event(2));
}

TEST_F(StreamTest, ChunkedForHttp11AndKeptAliveAfterItsEnd) {
  add_job("j1", cluster::JobState::stopped);
  Wire wire(port());
  wire.send(text("GET", "/api/v1/stream?topics=job:j1"));
  const auto answer = wire.answer();
  EXPECT_TRUE(answer.chunked());
  EXPECT_NE(answer.body().find("event: job_end"), std::string::npos);
  wire.send(text("GET", "/healthz"));
  EXPECT_EQ(wire.answer().result_int(), 200u);
}

TEST_F(StreamTest, StoppingEndsEveryStreamAsAWholeOne) {
  options.limits.heartbeat = std::chrono::hours(1);  // nothing else wakes a stream
  std::vector<std::unique_ptr<Wire>> wires;
  for (int i = 0; i < 100; ++i) {
    wires.push_back(std::make_unique<Wire>(port()));
    wires.back()->send(text("GET", "/api/v1/stream?topics=jobs"));
    wires.back()->until("event: beat\ndata: {}\n\n");
  }
  Wire idle(port());
  idle.send(text("GET", "/healthz"));
  EXPECT_EQ(idle.answer().result_int(), 200u);
  clock.quiet = true;  // nor does it cut off a stream that takes long to end
  stop();
  for (auto& wire : wires) EXPECT_EQ(wire->rest(), "\r\n0\r\n\r\n");
  EXPECT_TRUE(idle.closed());
}

TEST_F(StreamTest, BadRequestsAreProblems) {
  expect_problem(get("/api/v1/stream"), 400);
  expect_problem(get("/api/v1/stream?topics="), 400);
  expect_problem(get("/api/v1/stream?topics=weather"), 400);
  expect_problem(get("/api/v1/stream?topics=job:nothing"), 404);
  expect_problem(get("/api/v1/stream?topics=jobs", "Last-Event-ID: x\r\n"), 400);
  expect_problem(get("/api/v1/stream?topics=jobs&last_event_id=-1"), 400);
}

TEST_F(StreamTest, ReaderThatTakesNothingIsClosedAndHoldsNobodyUp) {
  options.limits.write_deadline = 1s;
  Wire slow(port());
  slow.shrink_receive_buffer();
  slow.send(text("GET", "/api/v1/stream?topics=jobs&last_event_id=0"));
  const auto fast = open("topics=jobs&last_event_id=0");
  const std::string data = "\"" + std::string(60'000, 'x') + "\"";
  // More than the sockets' buffers take, in pieces, so that the reader that reads never waits for long.
  for (std::uint64_t i = 1; i <= 400; ++i) {
    publish(i, StreamKind::job, "j1", data);
    EXPECT_TRUE(fast->until("\n\n").starts_with("id: " + std::to_string(i) + "\n"));
  }
  // The slow one is cut off, and what it held is free again.
  std::string figures;
  while (figures.find("weir_http_streams 1\n") == std::string::npos) figures = get("/metrics").body();
}

}  // namespace
}  // namespace weir::api
