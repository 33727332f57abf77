#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <cmath>
#include <future>

#include "api/log_source.hpp"
#include "api/metric_source.hpp"
#include "base/errc.hpp"
#include "tests/api/fixture.hpp"

namespace weir::api {
namespace {

using JobsTest = ServerTest;

TEST_F(JobsTest, SubmitAnswersWithTheJobAndItsPlace) {
  const auto answer = post_json("/api/v1/jobs", R"({"model":{"name":"lenet"},"name":"one"})");
  EXPECT_EQ(answer.result_int(), 201u);
  const auto job = parsed(answer);
  EXPECT_EQ(answer[http::field::location], "/api/v1/jobs/" + job["id"].get<std::string>());
  const auto shown = parsed(get(std::string(answer[http::field::location])));
  EXPECT_EQ(shown["name"], "one");
  EXPECT_EQ(shown["workers"][0]["rank"], 0);
  EXPECT_EQ(shown["workers"][0]["node"], "n0");
  for (const char* field : {"id", "name", "state", "phase", "reason", "spec", "created_at", "started_at", "ended_at",
                            "step", "steps_total", "summary"})
    EXPECT_TRUE(shown.contains(field)) << field;
}

TEST_F(JobsTest, InvalidSpecIs422WithPointers) {
  for (const char* path : {"/api/v1/jobs", "/api/v1/jobs/validate"}) {
    const auto answer = post_json(path, R"({"modle":{}})");
    expect_problem(answer, 422);
    EXPECT_TRUE(parsed(answer)["errors"][0].contains("pointer"));
  }
  EXPECT_EQ(parsed(post_json("/api/v1/jobs", R"({"modle":{}})"))["errors"][1]["pointer"], "/modle");
  expect_problem(post_json("/api/v1/jobs", "{"), 400);
  expect_problem(post_json("/api/v1/jobs", "[]"), 422);
}

TEST_F(JobsTest, ValidateIsADryRun) {
  const auto result = parsed(post_json("/api/v1/jobs/validate", R"({"model":{"name":"lenet"}})"));
  EXPECT_EQ(result["valid"], true);
  EXPECT_EQ(result["placement"], nlohmann::json::parse(R"({"feasible":false,"reason":"no nodes","workers":[]})"));
  EXPECT_EQ(result["round_bytes"]["sent_per_worker"], 20);
  EXPECT_TRUE(result["round_bytes"]["dense_per_worker"].is_null());
  const auto warnings = nlohmann::json::parse(R"([{"pointer":"/compression/params/ratio","detail":"too small"}])");
  EXPECT_EQ(result["warnings"], warnings);
  EXPECT_TRUE(parsed(get("/api/v1/jobs"))["jobs"].empty());
}

TEST_F(JobsTest, IdempotencyKey) {
  const std::string key = "Idempotency-Key: k1\r\n";
  const auto first = post_json("/api/v1/jobs", R"({"model":1})", key);
  const auto again = post_json("/api/v1/jobs", R"({ "model" : 1 })", key);
  EXPECT_EQ(again.result_int(), 201u);
  EXPECT_EQ(again.body(), first.body());
  EXPECT_EQ(parsed(first)["warnings"][0]["detail"], "too small");
  EXPECT_EQ(again[http::field::location], first[http::field::location]);
  expect_problem(post_json("/api/v1/jobs", R"({"model":2})", key), 422);
  EXPECT_EQ(parsed(get("/api/v1/jobs"))["jobs"].size(), 1u);
  expect_problem(post_json("/api/v1/jobs", R"({"model":1})", "Idempotency-Key: \r\n"), 400);
  expect_problem(post_json("/api/v1/jobs", R"({"model":1})", "Idempotency-Key: " + std::string(201, 'k') + "\r\n"),
                 400);
}

TEST_F(JobsTest, ListIsPagedAndFiltered) {
  for (int i = 0; i < 5; ++i) add_job("j" + std::to_string(i));
  add_job("j9", cluster::JobState::failed);
  std::vector<std::string> seen;
  std::string address = "/api/v1/jobs?limit=2";
  while (true) {
    const auto answer = get(address);
    const auto page = parsed(answer);
    for (const auto& job : page["jobs"]) seen.push_back(job["id"]);
    if (page["next"].is_null()) break;
    const std::string link(answer[http::field::link]);
    address = "/api/v1/jobs?limit=2&cursor=" + page["next"].get<std::string>();
    EXPECT_EQ(link, "<" + address + ">; rel=\"next\"");
  }
  EXPECT_EQ(seen, (std::vector<std::string>{"j9", "j4", "j3", "j2", "j1", "j0"}));
  EXPECT_EQ(parsed(get("/api/v1/jobs?state=FAILED"))["jobs"].size(), 1u);
  EXPECT_EQ(parsed(get("/api/v1/jobs?state=RUNNING&limit=1"))["counts"]["FAILED"], 1);
  EXPECT_EQ(parsed(get("/api/v1/jobs?q=of%20j3"))["jobs"].size(), 1u);
  for (const char* query : {"state=failed", "limit=0", "limit=1001", "limit=x"})
    expect_problem(get(std::string("/api/v1/jobs?") + query), 400);
}

TEST_F(JobsTest, StopIsIdempotentAndDeleteWantsAnEnd) {
  add_job("j1");
  for (int i = 0; i < 2; ++i) {
    const auto stopping = request("POST", "/api/v1/jobs/j1/stop");
    EXPECT_EQ(stopping.result_int(), 202u);
    EXPECT_EQ(parsed(stopping)["phase"], "stopping");
  }
  expect_problem(request("DELETE", "/api/v1/jobs/j1"), 409);
  on_head([&] { head.jobs_by_id["j1"].state = cluster::JobState::stopped; });
  EXPECT_EQ(request("POST", "/api/v1/jobs/j1/stop").result_int(), 200u);
  EXPECT_EQ(request("DELETE", "/api/v1/jobs/j1").result_int(), 204u);
  expect_problem(request("DELETE", "/api/v1/jobs/j1"), 404);
  expect_problem(request("POST", "/api/v1/jobs/j1/stop"), 404);
  expect_problem(get("/api/v1/jobs/j1"), 404);
}

/// Five steps of a series in which the three axes differ.
std::vector<cluster::MetricRow> five_losses() {
  return {{"loss", std::nullopt, 1, 0.5, 100, 4},
          {"loss", std::nullopt, 2, 1.0, 200, 6},
          {"loss", std::nullopt, 3, 1.5, 300, 3},
          {"loss", std::nullopt, 4, 2.0, 400, 1},
          {"loss", std::nullopt, 5, 2.5, 500, 2}};
}

TEST_F(JobsTest, Metrics) {
  add_job("j1");
  head.metric_rows = {{"loss", 0, 1, 0.5, 8, 1.5}, {"loss", std::nullopt, 1, 0.5, 8, 1}, {"accuracy", 1, 7, 3, 9, 0.5}};
  const auto points = [&](const std::string& query) {
    return parsed(get("/api/v1/jobs/j1/metrics?" + query))["series"];
  };
  const auto all = parsed(get("/api/v1/jobs/j1/metrics"));
  EXPECT_EQ(all, nlohmann::json::parse(R"({"job": "j1", "x": "step", "series": [
      {"name": "accuracy", "worker": 1, "points": [[7, 0.5, 0.5, 0.5]]},
      {"name": "loss", "worker": null, "points": [[1, 1, 1, 1]]},
      {"name": "loss", "worker": 0, "points": [[1, 1.5, 1.5, 1.5]]}]})"));
  EXPECT_EQ(points("name=loss"), (nlohmann::json{all["series"][1], all["series"][2]}));
  EXPECT_EQ(points("worker=job"), nlohmann::json::array({all["series"][1]}));
  EXPECT_EQ(points("worker=1"), nlohmann::json::array({all["series"][0]}));
  EXPECT_EQ(points("worker=2"), nlohmann::json::array());
  const auto csv = get("/api/v1/jobs/j1/metrics?format=csv&name=loss");
  EXPECT_EQ(csv[http::field::content_type], "text/csv; charset=utf-8");
  EXPECT_EQ(csv.body(), "job,name,worker,x,min,max,last\r\nj1,loss,,1,1,1,1\r\nj1,loss,0,1,1.5,1.5,1.5\r\n");
  for (const char* query : {"x=time", "points=0", "points=5001", "points=x", "points=ALL", "from=a", "to=b", "worker=y",
                            "worker=", "format=xml"})
    expect_problem(get(std::string("/api/v1/jobs/j1/metrics?") + query), 400);
  expect_problem(get("/api/v1/jobs/j2/metrics"), 404);
  expect_problem(get("/api/v1/jobs/j2/metrics?points=all"), 404);
}

TEST_F(JobsTest, MetricsOverAnAxisInARangeInSoManyPoints) {
  add_job("j1");
  head.metric_rows = five_losses();
  const auto points = [&](const std::string& query) {
    return parsed(get("/api/v1/jobs/j1/metrics?" + query))["series"][0]["points"];
  };
  const auto expected = [](const char* text) { return nlohmann::json::parse(text); };
  EXPECT_EQ(points("x=wall&from=1&to=1.5"), expected("[[1.0, 6, 6, 6], [1.5, 3, 3, 3]]"));
  EXPECT_EQ(points("x=bytes&from=401"), expected("[[500, 2, 2, 2]]"));
  EXPECT_EQ(points("to=1"), expected("[[1, 4, 4, 4]]"));
  EXPECT_EQ(points("points=2"), expected("[[3, 3, 6, 3], [5, 1, 2, 2]]"));
  EXPECT_EQ(points("from=9"), expected("[]"));
}

TEST_F(JobsTest, AllPointsAreStreamed) {
  add_job("j1");
  head.metric_rows = five_losses();
  head.metric_rows.push_back({"loss", 0, 1, 0.5, 8, std::nan("")});
  head.metric_rows.push_back({"accuracy", std::nullopt, 9, 3, 9, 0.5});
  const auto csv = get("/api/v1/jobs/j1/metrics?points=all&format=csv&x=bytes&from=200");
  EXPECT_EQ(csv[http::field::transfer_encoding], "chunked");
  EXPECT_EQ(csv[http::field::content_disposition], "attachment; filename=\"j1-metrics.csv\"");
  EXPECT_EQ(csv.body(),
            "job,name,worker,x,min,max,last\r\nj1,loss,,200,6,6,6\r\nj1,loss,,300,3,3,3\r\n"
            "j1,loss,,400,1,1,1\r\nj1,loss,,500,2,2,2\r\n");
  const auto json = get("/api/v1/jobs/j1/metrics?points=all&from=2&to=5");
  EXPECT_EQ(json[http::field::transfer_encoding], "chunked");
  EXPECT_EQ(json[http::field::content_type], "application/json");
  EXPECT_EQ(parsed(json), nlohmann::json::parse(R"({"job": "j1", "x": "step", "series": [
      {"name": "accuracy", "worker": null, "points": []},
      {"name": "loss", "worker": null, "points": [[2, 6, 6, 6], [3, 3, 3, 3], [4, 1, 1, 1], [5, 2, 2, 2]]},
      {"name": "loss", "worker": 0, "points": []}]})"));
  const auto with_nan = parsed(get("/api/v1/jobs/j1/metrics?points=all&worker=0"));
  EXPECT_EQ(with_nan["series"][0]["points"], nlohmann::json::parse("[[1, null, null, null]]"));
  add_job("j3");
  on_head([&] { head.metric_rows.clear(); });
  EXPECT_EQ(parsed(get("/api/v1/jobs/j3/metrics?points=all"))["series"], nlohmann::json::array());
}

TEST_F(JobsTest, PointsThatNobodyReadsAnyMoreAreNotLookedFor) {
  add_job("j1");
  head.metric_rows = five_losses();
  start();
  cluster::MetricQuery query;
  query.job_id = "j1";
  query.all_workers = true;
  auto reader = net::co_spawn(io, head.metric_points(query), net::use_future).get();
  ASSERT_TRUE(reader);
  const auto source = metric_source(std::move(*reader), MetricText(MetricFormat::csv, "j1", cluster::MetricAxis::step));
  source->abandon();
  const auto piece = net::co_spawn(io, source->next(), net::use_future).get();
  ASSERT_FALSE(piece);
  EXPECT_EQ(piece.error().code, Errc::cancelled);
}

TEST_F(JobsTest, ALogThatBecomesShorterIsNotSentAsAWholeOne) {
  head.logs_by_job["j1"] = "begin";
  start();
  const auto source = log_source(head, "j1", 0, 0, 10);  // of the ten bytes that there were
  const auto next = [&] { return net::co_spawn(io, source->next(), net::use_future).get(); };
  EXPECT_EQ(next().value(), "begin");
  const auto piece = next();
  ASSERT_FALSE(piece);
  EXPECT_EQ(piece.error().code, Errc::io);
}

TEST_F(JobsTest, AHundredThousandPointsAreWhole) {
  add_job("j1");
  std::string expected = "job,name,worker,x,min,max,last\r\n";
  for (std::uint64_t step = 1; step <= 100'000; ++step) {
    head.metric_rows.push_back({"loss", std::nullopt, step, 0, 0, 0.5});
    expected += "j1,loss,," + std::to_string(step) + ",0.5,0.5,0.5\r\n";
  }
  EXPECT_TRUE(get("/api/v1/jobs/j1/metrics?points=all&format=csv").body() == expected);
}

TEST_F(JobsTest, LogsByByteOffset) {
  add_job("j1");
  head.logs_by_job["j1"] = "one\ntwo\nthree\n";
  auto chunk = parsed(get("/api/v1/jobs/j1/logs?worker=0&offset=4&limit=4"));
  EXPECT_EQ(chunk["text"], "two\n");
  EXPECT_EQ(chunk["next_offset"], 8);
  EXPECT_EQ(chunk["size"], 14);
  EXPECT_EQ(chunk["workers"], nlohmann::json::parse(R"([{"worker":0,"size":14}])"));
  EXPECT_EQ(parsed(get("/api/v1/jobs/j1/logs?offset=-6"))["text"], "three\n");
  EXPECT_EQ(parsed(get("/api/v1/jobs/j1/logs?offset=-600"))["offset"], 0);
  EXPECT_EQ(parsed(get("/api/v1/jobs/j1/logs?offset=600"))["text"], "");
  const auto raw = get("/api/v1/jobs/j1/logs?format=text&offset=4");
  EXPECT_EQ(raw.body(), "two\nthree\n");
  EXPECT_EQ(raw[http::field::content_disposition], "attachment; filename=\"j1-worker-0.log\"");
  EXPECT_EQ(get("/api/v1/jobs/j1/logs?format=text&limit=3").body(), "one");
  expect_problem(get("/api/v1/jobs/j1/logs?worker=1"), 404);
  expect_problem(get("/api/v1/jobs/j2/logs"), 404);
  expect_problem(get("/api/v1/jobs/j1/logs?offset=x"), 400);
  expect_problem(get("/api/v1/jobs/j1/logs?limit=99999999"), 400);
}

TEST_F(JobsTest, BytesThatAreNotTextStayAnAnswer) {
  add_job("j1");
  head.logs_by_job["j1"] = "a\xff\x1b[31mb";
  EXPECT_EQ(parsed(get("/api/v1/jobs/j1/logs"))["text"], "a\xef\xbf\xbd\x1b[31mb");
  EXPECT_EQ(get("/api/v1/jobs/j1/logs?format=text").body(), "a\xff\x1b[31mb");
}

TEST_F(JobsTest, LargeLogDownload) {
  add_job("j1");
  std::string& log = head.logs_by_job["j1"];
  for (int i = 0; i < 100'000; ++i) log += std::to_string(i) + "\n";
  EXPECT_TRUE(get("/api/v1/jobs/j1/logs?format=text").body() == log);
}

TEST_F(JobsTest, EventsArePagedBySequence) {
  add_job("j1");
  for (std::uint64_t i = 1; i <= 5; ++i) {
    cluster::EventRecord event;
    event.sequence = i;
    event.job_id = i == 3 ? "" : "j1";
    head.event_list.push_back(event);
  }
  const auto first = parsed(get("/api/v1/jobs/j1/events?limit=3"));
  EXPECT_EQ(first["events"].size(), 3u);
  EXPECT_EQ(first["next"], "4");
  const auto second = parsed(get("/api/v1/jobs/j1/events?limit=3&cursor=4"));
  EXPECT_EQ(second["events"][0]["id"], 5);
  EXPECT_TRUE(second["next"].is_null());
  const auto newest = parsed(get("/api/v1/jobs/j1/events?limit=3&order=newest"));
  EXPECT_EQ(newest["events"].size(), 3u);
  EXPECT_GT(newest["events"][0]["id"], newest["events"][2]["id"]);
  const auto before = "/api/v1/jobs/j1/events?order=newest&cursor=" + newest["next"].get<std::string>();
  EXPECT_LT(parsed(get(before))["events"][0]["id"], newest["events"][2]["id"]);
  EXPECT_EQ(parsed(get("/api/v1/events"))["events"].size(), 1u);
  expect_problem(get("/api/v1/events?order=best"), 400);
  expect_problem(get("/api/v1/events?cursor=x"), 400);
}

}  // namespace
}  // namespace weir::api
