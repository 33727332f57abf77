#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "api/message.hpp"
#include "api/resources.hpp"
#include "tests/api/fixture.hpp"

namespace weir::api {
namespace {

TEST_F(ServerTest, HealthSaysOkAndNoMore) {
  Wire wire(port());
  wire.send("GET /healthz HTTP/1.1\r\nHost: " + host() + "\r\n\r\n");
  const auto answer = wire.answer();
  EXPECT_EQ(answer.result_int(), 200u);
  EXPECT_EQ(answer.body(), "ok\n");
  EXPECT_EQ(get("/readyz").result_int(), 200u);
  on_head([&] {
    head.health_now.store_writable = false;
    head.health_now.detail = "secret place is full";
  });
  const auto not_ready = get("/readyz");
  expect_problem(not_ready, 503);
  EXPECT_EQ(not_ready.body().find("secret place"), std::string::npos);
}

TEST_F(ServerTest, AnswersCarrySecurityHeadersAndTheRequestId) {
  const auto answer = get("/api/v1/version", "X-Request-Id: mine-1\r\n");
  EXPECT_EQ(answer["X-Request-Id"], "mine-1");
  EXPECT_TRUE(answer[http::field::date].ends_with(" GMT")) << answer[http::field::date];
  EXPECT_EQ(answer["X-Content-Type-Options"], "nosniff");
  EXPECT_EQ(answer["Referrer-Policy"], "no-referrer");
  EXPECT_NE(answer["Content-Security-Policy"].find("default-src 'self'"), std::string_view::npos);
  EXPECT_NE(answer["Content-Security-Policy"].find("frame-ancestors 'none'"), std::string_view::npos);
  EXPECT_EQ(get("/api/v1/version", "X-Request-Id: <script>\r\n")["X-Request-Id"].find('<'), std::string_view::npos);
}

TEST(Message, DatesAreAsHeaderFieldsHaveThem) {
  using std::chrono::system_clock;
  EXPECT_EQ(http_date(system_clock::from_time_t(784'111'777)), "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(http_date(system_clock::from_time_t(1'709'164'800) + std::chrono::milliseconds(999)),
            "Thu, 29 Feb 2024 00:00:00 GMT");
}

TEST_F(ServerTest, HeadIsGetWithoutTheBody) {
  const auto whole = get("/api/v1/version");
  const auto header = request("HEAD", "/api/v1/version");
  EXPECT_EQ(header.result_int(), 200u);
  EXPECT_EQ(header[http::field::content_length], whole[http::field::content_length]);
  EXPECT_TRUE(header.body().empty());
}

TEST_F(ServerTest, UnchangedAnswersAre304) {
  const auto first = get("/api/v1/catalog");
  const std::string tag(first[http::field::etag]);
  ASSERT_FALSE(tag.empty());
  const auto second = get("/api/v1/catalog", "If-None-Match: \"other\", W/" + tag + "\r\n");
  EXPECT_EQ(second.result_int(), 304u);
  EXPECT_EQ(second[http::field::etag], tag);
  EXPECT_EQ(get("/api/v1/catalog", "If-None-Match: \"other\"\r\n").result_int(), 200u);
}

TEST_F(ServerTest, UnknownPathsAre404Problems) {
  expect_problem(get("/api/v1/nothing"), 404);
  expect_problem(get("/api/v2/jobs"), 404);
  expect_problem(get("/assets/nothing.js"), 404);
}

TEST_F(ServerTest, WhatALibraryThrowsIsA500WithoutItsWords) {
  head.throws = true;
  const auto answer = get("/api/v1/nodes");
  expect_problem(answer, 500);
  EXPECT_EQ(answer.body().find("complaint"), std::string::npos);
  EXPECT_EQ(get("/healthz").result_int(), 200u);
}

TEST_F(ServerTest, DashboardIsServedForItsViewsOnly) {
  const auto root = get("/");
  EXPECT_EQ(root.result_int(), 200u);
  EXPECT_EQ(root[http::field::content_type], "text/html; charset=utf-8");
  EXPECT_EQ(root.body(), find_resource("/index.html")->bytes);
  EXPECT_EQ(get("/jobs/job-1").body(), root.body());
  const std::string tag(root[http::field::etag]);
  EXPECT_EQ(get("/", "If-None-Match: " + tag + "\r\n").result_int(), 304u);
  for (const auto& resource : resources()) {
    const auto answer = get(std::string(resource.path));
    EXPECT_EQ(answer.body(), resource.bytes) << resource.path;
    if (!resource.gzip.empty()) {
      const auto small = get(std::string(resource.path), "Accept-Encoding: br, gzip;q=0.8\r\n");
      EXPECT_EQ(small[http::field::content_encoding], "gzip");
      EXPECT_EQ(small.body(), resource.gzip);
    }
  }
}

TEST_F(ServerTest, NoPathLeavesTheTable) {
  for (const char* path :
       {"/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/%252e%252e/etc/passwd", "/..%5c..%5cetc/passwd", "/%00",
        "/assets/../../etc/passwd", "/assets/%2fetc%2fpasswd", "//etc/passwd",
        "/api/v1/jobs/..%2f..%2fetc%2fpasswd/logs", "/api/v1/jobs/%2e%2e/checkpoints/10"}) {
    const auto answer = get(path);
    EXPECT_TRUE(answer.result_int() == 400 || answer.result_int() == 404) << path << " " << answer.result_int();
    EXPECT_EQ(answer.body().find("root:"), std::string::npos) << path;
  }
  // These look like views, and the page they get is the dashboard's.
  EXPECT_EQ(get("/etc/passwd").body(), find_resource("/index.html")->bytes);
  EXPECT_EQ(get("/proc/self/environ").body(), find_resource("/index.html")->bytes);
}

TEST_F(ServerTest, OpenApiIsServed) {
  const auto answer = get("/openapi.json");
  EXPECT_EQ(answer.result_int(), 200u);
  EXPECT_EQ(parsed(answer)["info"]["version"], "1.2.3");
}

TEST_F(ServerTest, PrometheusText) {
  cluster::NodeRecord node;
  node.resources = {{"cpu", 4}};
  node.used = {{"cpu", 1}};
  head.node_list = {node};
  add_job("j1");
  head.jobs_by_id["j1"].summary = {{"bytes_sent", 1000}};
  get("/api/v1/version");
  const auto answer = get("/metrics");
  EXPECT_EQ(answer.result_int(), 200u);
  EXPECT_TRUE(answer[http::field::content_type].starts_with("text/plain; version=0.0.4"));
  for (const char* line : {"weir_jobs{state=\"RUNNING\"} 1\n", "weir_nodes{state=\"alive\"} 1\n",
                           "weir_resource_total{resource=\"cpu\"} 4\n", "weir_running_sent_bytes 1000\n",
                           "weir_http_requests_total{method=\"GET\",route=\"/api/v1/version\",code=\"200\"} 1\n"})
    EXPECT_NE(answer.body().find(line), std::string::npos) << line << "\n" << answer.body();
  EXPECT_EQ(answer.body().find(test_token), std::string::npos);
}

TEST_F(ServerTest, GpusOfANodeAndTheirReadings) {
  cluster::NodeRecord node;
  node.id = "n1";
  node.name = "a";
  protocol::GpuSample sample{.utilization = 0.43};
  sample.memory_used_bytes = 1000;
  sample.power_watts = 512.5;
  sample.temperature_celsius = 61;
  sample.ecc_errors = 2;
  sample.xid = 79;
  node.gpus = {{{0, "GPU-aa", "NVIDIA H200", 4000}, false, sample}, {{1, "GPU-bb", "NVIDIA H200", 4000}, true, {}}};
  cluster::WorkerRecord worker;
  worker.id = "w1";
  worker.job_id = "j1";
  worker.gpus = {{"GPU-aa", 0.5}};
  node.workers = {worker};
  head.node_list = {node};
  const auto gpus = parsed(get("/api/v1/nodes/a"))["gpus"];
  EXPECT_EQ(gpus[0]["booked"], 0.5);
  EXPECT_EQ(gpus[0]["workers"][0]["job"], "j1");
  EXPECT_EQ(gpus[0]["utilization"], 0.43);
  EXPECT_EQ(gpus[1]["state"], "lost");
  for (const char* reading :
       {"utilization", "memory_used_bytes", "power_watts", "temperature_celsius", "ecc_errors", "xid"}) {
    EXPECT_FALSE(gpus[0][reading].is_null()) << reading;
    EXPECT_TRUE(gpus[1].contains(reading) && gpus[1][reading].is_null()) << reading;
  }
  const std::string text = get("/metrics").body();
  const std::string labels = "{node=\"a\",gpu=\"0\",uuid=\"GPU-aa\"} ";
  for (const char* line :
       {"utilization_ratio 0.43", "memory_used_bytes 1000", "memory_total_bytes 4000", "power_watts 512.5",
        "temperature_celsius 61", "ecc_errors 2", "xid 79", "booked_ratio 0.5", "present 1"}) {
    const std::string name = line;
    const auto space = name.find(' ');
    const std::string sample_line = "weir_node_gpu_" + name.substr(0, space) + labels + name.substr(space + 1) + "\n";
    EXPECT_NE(text.find(sample_line), std::string::npos) << sample_line << "\n" << text;
  }
  EXPECT_NE(text.find("weir_node_gpu_present{node=\"a\",gpu=\"1\",uuid=\"GPU-bb\"} 0\n"), std::string::npos);
  EXPECT_EQ(text.find("weir_node_gpu_utilization_ratio{node=\"a\",gpu=\"1\""), std::string::npos) << "unknown";
}

TEST_F(ServerTest, PagesOfNodesNeitherSkipNorRepeatWhenANodeIsLost) {
  for (const char* name : {"a", "b", "c", "d"}) {
    cluster::NodeRecord node;
    node.id = std::string("id-") + name;
    node.name = name;
    head.node_list.push_back(node);
  }
  const auto page = [this](const std::string& cursor) {
    return parsed(get("/api/v1/nodes?limit=2" + (cursor.empty() ? "" : "&cursor=" + cursor)));
  };
  const auto first = page("");
  on_head([this] {  // b is lost: it goes to the end
    head.node_list[1].state = cluster::NodeState::lost;
    std::rotate(head.node_list.begin() + 1, head.node_list.begin() + 2, head.node_list.end());
  });
  const auto second = page(first["next"]);
  ASSERT_EQ(second["nodes"].size(), 2u);
  EXPECT_EQ(second["nodes"][0]["name"], "c");
  EXPECT_EQ(second["nodes"][1]["name"], "d");
  on_head([this] { head.node_list.erase(head.node_list.begin() + 2); });  // d
  const auto third = page(second["next"]);
  ASSERT_EQ(third["nodes"].size(), 1u);
  EXPECT_EQ(third["nodes"][0]["name"], "b");
  EXPECT_TRUE(third["next"].is_null());
}

TEST_F(ServerTest, NodesAndActors) {
  for (const char* name : {"a", "b", "c"}) {
    cluster::NodeRecord node;
    node.id = std::string("id-") + name;
    node.name = name;
    head.node_list.push_back(node);
  }
  head.actor_list.resize(2);
  head.actor_list[0].name = "head/jobs";
  head.actor_list[1].name = "head/jobs2";
  const auto first = parsed(get("/api/v1/nodes?limit=2"));
  EXPECT_EQ(first["nodes"].size(), 2u);
  const auto second = parsed(get("/api/v1/nodes?limit=2&cursor=" + first["next"].get<std::string>()));
  EXPECT_EQ(second["nodes"][0]["name"], "c");
  EXPECT_TRUE(second["next"].is_null());
  expect_problem(get("/api/v1/nodes?cursor=x"), 400);
  EXPECT_EQ(parsed(get("/api/v1/nodes/b"))["id"], "id-b");
  EXPECT_EQ(parsed(request("POST", "/api/v1/nodes/b/drain"))["state"], "draining");
  expect_problem(request("POST", "/api/v1/nodes/x/drain"), 404);
  EXPECT_EQ(parsed(request("DELETE", "/api/v1/nodes/b/drain"))["state"], "alive");
  expect_problem(request("DELETE", "/api/v1/nodes/x/drain"), 404);
  expect_problem(request("DELETE", "/api/v1/nodes/b"), 409);
  on_head([this] { head.node_list[1].state = cluster::NodeState::lost; });
  EXPECT_EQ(request("DELETE", "/api/v1/nodes/b").result_int(), 204u);
  expect_problem(get("/api/v1/nodes/b"), 404);
  expect_problem(request("DELETE", "/api/v1/nodes/b"), 404);
  EXPECT_EQ(parsed(get("/api/v1/actors"))["actors"].size(), 2u);
  EXPECT_EQ(parsed(get("/api/v1/actors/head/jobs"))["name"], "head/jobs");
  EXPECT_EQ(parsed(get("/api/v1/actors/head%2Fjobs"))["name"], "head/jobs");
  expect_problem(get("/api/v1/actors/head"), 404);
}

TEST_F(ServerTest, CheckpointIsStreamedFromItsFile) {
  const std::filesystem::path path = ::testing::TempDir() + "checkpoint-" + std::to_string(::getpid()) + ".safetensors";
  std::string content(3 * 1024 * 1024 + 17, '\0');
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 31);
  std::ofstream(path, std::ios::binary) << content;
  head.checkpoint_file = path;
  add_job("j1");
  const auto answer = get("/api/v1/jobs/j1/checkpoints/10");
  EXPECT_EQ(answer.result_int(), 200u);
  EXPECT_EQ(answer[http::field::content_length], std::to_string(content.size()));
  EXPECT_EQ(answer[http::field::content_disposition], "attachment; filename=\"j1-step-10.safetensors\"");
  EXPECT_TRUE(answer.body() == content);
  EXPECT_EQ(request("HEAD", "/api/v1/jobs/j1/checkpoints/10")[http::field::content_length],
            std::to_string(content.size()));
  for (const char* step : {"11", "x", "-1", "10.5", "99999999999999999999999"})
    expect_problem(get(std::string("/api/v1/jobs/j1/checkpoints/") + step), 404);
  EXPECT_EQ(parsed(get("/api/v1/jobs/j1/checkpoints"))["checkpoints"][0]["step"], 10);
  std::filesystem::remove(path);
  expect_problem(get("/api/v1/jobs/j1/checkpoints/10"), 404);
}

}  // namespace
}  // namespace weir::api
