#include <map>
#include <set>

#include "api/openapi.hpp"
#include "tests/api/fixture.hpp"

namespace weir::api {
namespace {

using cluster::WorkerTraffic;
using nlohmann::json;
using protocol::Activity;

/// Two workers: 0 has sent 100 bytes to 1, which has sent 60.
std::vector<WorkerTraffic> two_workers() {
  WorkerTraffic first;
  first.job_id = "j1";
  first.totals.step = 4;
  first.totals.links = {{1, {100, 60}}};
  first.totals.phases = {{"dense", {10, 6}}, {"pass 1", {90, 54}}, {"other", {}}};
  first.totals.tensors = {{"weight", {90, 54}}, {"bias", {8, 5}}};
  first.totals.rest = {2, 1};
  first.sampled = protocol::StepTimeline{
      .step = 4,
      .seconds = 0.5,
      .dropped = 0,
      .spans = {{.bucket = 0, .activity = Activity::encode, .part = 1, .begin_seconds = 0.001, .seconds = 0.002},
                {.bucket = 0, .activity = Activity::wait, .lane = 1, .begin_seconds = 0.003, .seconds = 0.001},
                {.bucket = 0,
                 .activity = Activity::wire,
                 .part = 1,
                 .lane = 1,
                 .begin_seconds = 0.004,
                 .seconds = 0.0005,
                 .bytes = {90, 54}}}};
  WorkerTraffic second = first;
  second.worker = 1;
  second.totals.links = {{0, {60, 100}}};
  second.totals.phases = {{"dense", {6, 10}}, {"pass 1", {54, 90}}, {"other", {}}};
  second.totals.tensors = {{"bias", {5, 8}}, {"weight", {54, 90}}};
  second.totals.rest = {1, 2};
  second.sampled->step = 5;
  second.slowest = second.sampled;
  second.slowest->step = 2;
  return {first, second};
}

class TrafficTest : public ServerTest {
 protected:
  json traffic() { return parsed(get("/api/v1/jobs/j1/traffic")); }
  json trace(const std::string& query = "") { return parsed(get("/api/v1/jobs/j1/trace" + query)); }
};

TEST_F(TrafficTest, IsThatOfEachWorkerAndTheSum) {
  add_job("j1");
  head.traffic_list = two_workers();
  const auto answer = traffic();
  EXPECT_EQ(answer["job"], "j1");
  EXPECT_EQ(answer["bytes_sent"], 160);
  EXPECT_EQ(answer["bytes_received"], 160);
  EXPECT_EQ(answer["links"], json::parse(R"([{"from": 0, "to": 1, "bytes_sent": 100, "bytes_received": 100},
                                             {"from": 1, "to": 0, "bytes_sent": 60, "bytes_received": 60}])"));
  EXPECT_EQ(answer["phases"], json::parse(R"([{"name": "dense", "bytes_sent": 16, "bytes_received": 16},
                                              {"name": "pass 1", "bytes_sent": 144, "bytes_received": 144},
                                              {"name": "other", "bytes_sent": 0, "bytes_received": 0}])"));
  EXPECT_EQ(answer["tensors"], json::parse(R"([{"name": "weight", "bytes_sent": 144, "bytes_received": 144},
                                               {"name": "bias", "bytes_sent": 13, "bytes_received": 13}])"));
  EXPECT_EQ(answer["rest"], json::parse(R"({"bytes_sent": 3, "bytes_received": 3})"));
  ASSERT_EQ(answer["workers"].size(), 2u);
  const auto& worker = answer["workers"][1];
  EXPECT_EQ(worker["worker"], 1);
  EXPECT_EQ(worker["step"], 4);
  EXPECT_EQ(worker["bytes_sent"], 60);
  EXPECT_EQ(worker["tensors"][0]["name"], "bias");
}

protocol::ExchangePlan plan() {
  protocol::ExchangePlan plan;
  plan.step = 30;
  plan.reason = "the fastest of 2 tried: 152 ms a step";
  plan.buckets = {{"float32", "tree", 40}, {"coded", "ring", 4000}, {"coded", "ring", 3000}};
  plan.latency_seconds = 0.5;
  plan.bytes_per_second = 1000;
  plan.candidates = {{"bfloat16 over ring, 3 buckets", 0.25, 0.5},
                     {"coded over ring, 2 buckets; float32 over tree, 1 bucket", 0.125, 0.25, true}};
  return plan;
}

TEST_F(TrafficTest, SaysHowGradientsTravelAndWhy) {
  add_job("j1");
  head.traffic_list = two_workers();
  EXPECT_EQ(traffic().at("plan"), nullptr);
  head.traffic_list[0].plan = plan();
  EXPECT_EQ(traffic()["plan"], json::parse(R"({
      "step": 31, "reason": "the fastest of 2 tried: 152 ms a step", "on_trial": false,
      "routes": [{"form": "coded", "topology": "ring", "buckets": 2, "bytes": 7000},
                 {"form": "float32", "topology": "tree", "buckets": 1, "bytes": 40}],
      "latency_seconds": 0.5, "bytes_per_second": 1000.0,
      "candidates": [
        {"routes": "bfloat16 over ring, 3 buckets",
         "predicted_seconds": 0.25, "measured_seconds": 0.5, "followed": false},
        {"routes": "coded over ring, 2 buckets; float32 over tree, 1 bucket",
         "predicted_seconds": 0.125, "measured_seconds": 0.25, "followed": true}]})"));
}

TEST_F(TrafficTest, WhatAPlanHasNotMeasuredIsNull) {
  add_job("j1");
  head.traffic_list = two_workers();
  head.traffic_list[0].plan = plan();
  auto& fixed = *head.traffic_list[0].plan;
  fixed.candidates[0].measured_seconds.reset();
  EXPECT_EQ(traffic()["plan"]["on_trial"], true);
  EXPECT_EQ(traffic()["plan"]["candidates"][0]["measured_seconds"], nullptr);
  fixed.latency_seconds = 0;
  fixed.bytes_per_second = 0;
  fixed.candidates.clear();
  const auto answer = traffic()["plan"];
  EXPECT_EQ(answer["latency_seconds"], nullptr);
  EXPECT_EQ(answer["bytes_per_second"], nullptr);
  EXPECT_EQ(answer["candidates"], json::array());
  EXPECT_EQ(answer["on_trial"], false);
}

/// The names that an object of the API's document must have and may have.
std::set<std::string> documented(const json& schema) {
  std::set<std::string> names;
  for (const auto& [name, property] : schema.at("properties").items()) names.insert(name);
  EXPECT_EQ(names, schema.at("required").get<std::set<std::string>>());
  EXPECT_EQ(schema.at("additionalProperties"), false);
  return names;
}

std::set<std::string> names_of(const json& object) {
  std::set<std::string> names;
  for (const auto& [name, value] : object.items()) names.insert(name);
  return names;
}

TEST_F(TrafficTest, HasWhatIsDocumented) {
  add_job("j1");
  head.traffic_list = two_workers();
  head.traffic_list[0].plan = plan();
  const auto answer = traffic();
  const auto schemas = json::parse(openapi_document("1"))["components"]["schemas"];
  EXPECT_EQ(names_of(answer), documented(schemas["Traffic"]));
  const auto& of_plan = schemas["ExchangePlan"];
  EXPECT_EQ(names_of(answer["plan"]), documented(of_plan));
  for (const char* list : {"routes", "candidates"}) {
    EXPECT_EQ(names_of(answer["plan"][list][0]), documented(of_plan["properties"][list]["items"])) << list;
  }
}

TEST_F(TrafficTest, TheEndThatHasNotReportedIsNull) {
  add_job("j1");
  head.traffic_list = two_workers();
  head.traffic_list.pop_back();
  const auto links = traffic()["links"];
  EXPECT_EQ(links, json::parse(R"([{"from": 0, "to": 1, "bytes_sent": 100, "bytes_received": null},
                                   {"from": 1, "to": 0, "bytes_sent": null, "bytes_received": 60}])"));
}

TEST_F(TrafficTest, AnEndThatNamesNoSuchLinkHasMovedNothing) {
  add_job("j1");
  head.traffic_list = two_workers();
  head.traffic_list[1].totals.links.clear();
  EXPECT_EQ(traffic()["links"], json::parse(R"([{"from": 0, "to": 1, "bytes_sent": 100, "bytes_received": 0},
                                                {"from": 1, "to": 0, "bytes_sent": 0, "bytes_received": 60}])"));
}

TEST_F(TrafficTest, NamesTheBusiestLinksOfManyWorkers) {
  add_job("j1");
  constexpr std::uint32_t workers = 70;
  for (std::uint32_t from = 0; from < workers; ++from) {
    WorkerTraffic worker;
    worker.worker = from;
    for (std::uint32_t to = 0; to < workers; ++to) {
      if (to != from) worker.totals.links.push_back({to, {std::uint64_t{from} * to, std::uint64_t{from} * to}});
    }
    head.traffic_list.push_back(worker);
  }
  const auto answer = traffic();
  ASSERT_EQ(answer["links"].size(), 64u * 63);
  const std::size_t silent = 2 * (workers - 1);  // from rank 0 and to it
  EXPECT_EQ(answer["links_dropped"], workers * (workers - 1) - silent - 64 * 63);
  EXPECT_EQ(answer["links"].back()["from"], 69);
  EXPECT_EQ(answer["links"].back()["to"], 68);
  std::pair<int, int> before{-1, -1};
  for (const auto& link : answer["links"]) {
    const std::pair<int, int> ends{link["from"].get<int>(), link["to"].get<int>()};
    EXPECT_LT(before, ends);
    before = ends;
  }
}

TEST_F(TrafficTest, NamesTwentyTensorsAndAddsUpTheRest) {
  add_job("j1");
  WorkerTraffic worker;
  for (std::uint64_t i = 0; i < 20; ++i) worker.totals.tensors.push_back({"p" + std::to_string(i), {100 + i, 0}});
  head.traffic_list = {worker, worker};
  head.traffic_list[1].worker = 1;
  head.traffic_list[1].totals.tensors[0] = {"another", {1000, 0}};
  const auto answer = traffic();
  ASSERT_EQ(answer["tensors"].size(), 20u);
  EXPECT_EQ(answer["tensors"][0]["name"], "another");
  EXPECT_EQ(answer["tensors"][1]["name"], "p19");
  EXPECT_EQ(answer["rest"]["bytes_sent"], 100) << "p0, which only one of them names";
}

TEST_F(TrafficTest, OfAJobThatHasNotBegunIsEmpty) {
  add_job("j1");
  const auto answer = traffic();
  for (const char* list : {"links", "phases", "tensors", "workers"}) EXPECT_EQ(answer[list], json::array()) << list;
  EXPECT_EQ(answer["bytes_sent"], 0);
  EXPECT_EQ(trace()["traceEvents"], json::array());
}

TEST_F(TrafficTest, TheTraceHasAProcessForEachWorkerAndAThreadForEachLane) {
  add_job("j1");
  head.traffic_list = two_workers();
  const auto answer = trace();
  EXPECT_EQ(answer["displayTimeUnit"], "ms");
  EXPECT_EQ(answer["otherData"]["steps"][1]["step"], 5);
  std::map<std::string, json> named;
  json of_first = json::array();
  std::set<std::pair<int, std::string>> threads;
  for (const auto& event : answer["traceEvents"]) {
    if (event["ph"] == "M" && event["name"] == "thread_name") {
      threads.emplace(event["pid"].get<int>(), event["args"]["name"].get<std::string>());
    }
    if (event["ph"] != "M" && event["pid"] == 1) of_first.push_back(event);
  }
  using Threads = std::set<std::pair<int, std::string>>;
  Threads expected;
  for (const int worker : {1, 2}) {
    for (const char* name : {"encoder", "decoder", "lane 0", "lane 1"}) expected.emplace(worker, name);
  }
  EXPECT_EQ(threads, expected);
  ASSERT_EQ(of_first.size(), 4u);
  EXPECT_EQ(of_first[0], json::parse(R"({"ph": "X", "name": "encode bucket 0, pass 1", "cat": "encode", "pid": 1,
      "tid": 1, "ts": 1000.0, "dur": 2000.0, "args": {"bucket": 0, "step": 4, "part": "pass 1"}})"));
  EXPECT_EQ(of_first[1]["ph"], "b");
  EXPECT_EQ(of_first[2]["ph"], "e");
  EXPECT_EQ(of_first[1]["id"], of_first[2]["id"]);
  EXPECT_EQ(of_first[2]["ts"], 4000.0);
  EXPECT_EQ(of_first[3], json::parse(R"({"ph": "X", "name": "wire bucket 0, pass 1", "cat": "wire", "pid": 1,
      "tid": 4, "ts": 4000.0, "dur": 500.0,
      "args": {"bucket": 0, "step": 4, "part": "pass 1", "bytes_sent": 90, "bytes_received": 54}})"));
}

TEST_F(TrafficTest, TheTraceOfTheSlowestStep) {
  add_job("j1");
  head.traffic_list = two_workers();
  const auto steps = trace("?step=slowest")["otherData"]["steps"];
  EXPECT_EQ(steps, json::parse(R"([{"worker": 1, "step": 2, "seconds": 0.5, "dropped": 0}])"));
  EXPECT_EQ(get("/api/v1/jobs/j1/trace")[http::field::content_disposition], "attachment; filename=\"j1-trace.json\"");
}

TEST_F(TrafficTest, TheTraceOfOneWorker) {
  add_job("j1");
  head.traffic_list = two_workers();
  const auto answer = trace("?worker=1");
  EXPECT_EQ(answer["otherData"]["steps"].size(), 1u);
  for (const auto& event : answer["traceEvents"]) EXPECT_EQ(event["pid"], 2);
  EXPECT_EQ(trace("?worker=7")["traceEvents"], json::array());
  for (const char* query : {"?worker=x", "?worker=-1"})
    expect_problem(get("/api/v1/jobs/j1/trace" + std::string(query)), 400);
}

TEST_F(TrafficTest, WhatCannotBeAnsweredIsAProblem) {
  add_job("j1");
  expect_problem(get("/api/v1/jobs/j2/traffic"), 404);
  expect_problem(get("/api/v1/jobs/j2/trace"), 404);
  expect_problem(get("/api/v1/jobs/j1/trace?step=7"), 400);
  expect_problem(request("POST", "/api/v1/jobs/j1/traffic"), 405);
  expect_problem(request("DELETE", "/api/v1/jobs/j1/trace"), 405);
}

}  // namespace
}  // namespace weir::api
